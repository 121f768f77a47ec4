"""The control item of a saga: every condition of the protocol."""
