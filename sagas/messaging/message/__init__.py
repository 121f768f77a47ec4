"""The message of a step, and its parts."""
