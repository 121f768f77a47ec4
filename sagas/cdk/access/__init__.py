"""The API, and the rights of principals that call it."""
