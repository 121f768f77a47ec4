"""The Lambda functions and their code."""
