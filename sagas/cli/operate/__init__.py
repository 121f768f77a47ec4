"""Commands that change sagas, types and queues."""
