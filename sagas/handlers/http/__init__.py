"""The HTTP API: one module per kind of resource."""
