"""Geometry of what is drawn: numbers and words, no HTML."""
