"""The lock file: the definitions and JSON Schemas that sagas in flight were started with, for the next release."""

LOCK = "sagas.lock.json"
"""The file's name, in the root of a repository."""
