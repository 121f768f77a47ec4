"""What the supervisor does: recover, purge, verify."""
