"""Calls for operators."""
