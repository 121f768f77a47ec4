"""A service of a saga with very many children."""
