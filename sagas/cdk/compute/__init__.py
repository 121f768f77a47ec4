"""The Lambda functions: their code, variables and permissions."""
