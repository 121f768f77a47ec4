"""The geometry of drawings, as numbers and words without HTML."""
