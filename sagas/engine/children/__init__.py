"""Starts, joins and undoes the children of a saga."""
