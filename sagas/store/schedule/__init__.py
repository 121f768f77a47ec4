"""Stored progress of the supervisor, of the queues, and of sweeps."""
