"""How a saga begins."""
