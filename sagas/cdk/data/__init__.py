"""Where sagas, payloads and messages are: tables, the bucket and the queues."""
