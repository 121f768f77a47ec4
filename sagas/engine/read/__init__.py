"""Reads sagas, for the API's answers about them."""
