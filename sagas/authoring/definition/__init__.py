"""What a saga class declares, read once and checked."""
