"""Putting the parts together: each function composes those that it runs, and loads no others."""
