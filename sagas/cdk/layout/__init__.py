"""How a service is laid out in templates."""
