"""One attempt of a step or undo: the claim, the call, the outcome."""
