"""The options of a service, with their checks."""
