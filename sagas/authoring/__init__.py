"""The decorators, policies and base class that authors use, and the frozen definition of each saga type."""
