"""Requests of operators and callers about sagas, types and circuit breakers."""
