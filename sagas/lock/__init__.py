"""What a release leaves to the next: the definitions and JSON Schemas that sagas in flight were started with."""
