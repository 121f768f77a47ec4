"""What Lambda calls: parse the event, call the engine, shape the answer."""
