"""The table of joins."""
