"""Sagas that are started by a saga, and what becomes of them."""
