"""By what sagas are found and listed."""
