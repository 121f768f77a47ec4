"""Logs, metrics and traces of the functions."""
