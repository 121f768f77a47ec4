"""Accepted signals, until their steps take them."""
