"""What a service may be given: its options, with their checks."""
