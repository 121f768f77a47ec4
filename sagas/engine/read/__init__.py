"""What is shown of sagas."""
