"""What one attempt of a step or undo takes: the claim, the call, the outcome."""
