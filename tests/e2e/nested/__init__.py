"""A service too large for one stack."""
