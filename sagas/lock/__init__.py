"""The lock file. For the next release, it keeps the definitions and JSON Schemas that sagas in flight started with."""

LOCK = "sagas.lock.json"
"""The name of the file, which is in the root of a repository."""
