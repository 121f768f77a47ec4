"""The definition of a saga class, read and checked when the class is created."""
