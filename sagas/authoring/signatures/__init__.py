"""The signatures of an author's methods."""
