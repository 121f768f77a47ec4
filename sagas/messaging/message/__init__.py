"""The message of a step, and what travels in it."""
