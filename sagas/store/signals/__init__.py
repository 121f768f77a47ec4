"""Signals that wait to be taken."""
