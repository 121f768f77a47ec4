"""The tables, the bucket and the queues, which hold sagas, payloads and messages."""
