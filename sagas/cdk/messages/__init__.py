"""Commands, events and callbacks."""
