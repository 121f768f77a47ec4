"""Who may call what: the API and the rights of callers."""
