"""The JSON form of each supported type. For each kind of type, a class encodes and decodes values and has a schema."""
