"""Five functions that only pass a message on: the floor of any design with a function and a queue per step."""
