"""How far the supervisor and its queues are."""
