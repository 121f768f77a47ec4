"""How a service is laid out in templates: its sagas and step groups, and the stacks that they go to."""
