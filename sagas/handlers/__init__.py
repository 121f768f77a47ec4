"""The Lambda handlers: parse the event, call the engine, shape the answer."""
