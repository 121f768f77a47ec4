"""The Lambda handlers: parse the event, call the engine, format the response."""
