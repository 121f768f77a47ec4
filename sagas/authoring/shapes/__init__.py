"""The JSON form of each supported type. One class per kind of type encodes, decodes and describes it."""
