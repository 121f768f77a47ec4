"""What operators and callers ask of sagas, types and circuit breakers."""
