"""Compositions of the engine's parts: each function composes those it runs, and loads no others."""
