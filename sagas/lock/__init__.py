"""The lock file: the definitions and JSON Schemas that sagas in flight were started with, for the next release."""
