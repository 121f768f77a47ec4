"""The accepted signals that wait for their steps."""
