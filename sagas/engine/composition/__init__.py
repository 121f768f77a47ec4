"""Compositions of the engine's parts. Each function composes the parts it runs, and loads no others."""
