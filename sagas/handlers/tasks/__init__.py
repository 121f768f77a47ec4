"""The tasks of the supervisor and of its queues."""
