"""Commands for a project on the developer's machine."""
