"""The indexes by which sagas are found and listed."""
