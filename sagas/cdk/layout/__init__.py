"""The layout of a service in templates: its sagas and step groups, and the stacks that contain them."""
