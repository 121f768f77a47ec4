"""Compositions of the engine's parts. Each function composes the parts that it runs, and loads no others."""
