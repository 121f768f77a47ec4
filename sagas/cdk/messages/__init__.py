"""The command queue, the outbox for events, and callbacks."""
