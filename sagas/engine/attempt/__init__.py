"""An attempt of a step or undo: the claim, the call and the outcome."""
