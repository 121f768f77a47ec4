"""What a saga's author writes, and the frozen definition made from it."""
