"""Explain a saga to its reader."""
