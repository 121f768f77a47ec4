"""The API and the rights of its callers."""
