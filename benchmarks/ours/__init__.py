"""The saga as this library has it."""
