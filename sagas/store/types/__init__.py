"""The stored state of saga types: pauses, failures in a row, circuit breakers, blueprints."""
