"""How values of the supported types look as JSON. One class a kind: it encodes, decodes and describes itself."""
