"""A service in an API, and on tables, that were there already."""
