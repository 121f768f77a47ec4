"""Commands that show sagas."""
