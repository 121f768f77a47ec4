"""What explains a saga to a reader."""
