"""The pages: what the service says, arranged to be read."""
