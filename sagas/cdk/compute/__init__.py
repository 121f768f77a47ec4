"""The Lambda functions: code, variables and rights."""
