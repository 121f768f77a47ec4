"""What operators ask of a service."""
