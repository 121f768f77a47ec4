"""Start sagas."""
