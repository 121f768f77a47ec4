"""What a release leaves to the next: the definitions and JSON Schemas that sagas in flight were started with."""

LOCK = "sagas.lock.json"
"""What the file is called, in the root of a repository."""
