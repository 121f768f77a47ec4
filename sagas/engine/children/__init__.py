"""Start, join and undo the children of a saga."""
