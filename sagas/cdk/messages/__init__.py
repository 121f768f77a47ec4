"""Queues, commands and events."""
