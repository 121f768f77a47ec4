"""Events and traces of sagas."""
