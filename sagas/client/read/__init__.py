"""Explains a saga to its reader."""
