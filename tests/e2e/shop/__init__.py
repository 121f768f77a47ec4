"""A service within an app that has an API, tables, queues, a topic, a bus and a bucket of its own."""
