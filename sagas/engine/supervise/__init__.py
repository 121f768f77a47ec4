"""The supervisor's tasks: recover, purge, verify."""
