"""The stores of sagas, payloads and messages: tables, the bucket and the queues."""
