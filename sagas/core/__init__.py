"""The automaton of a saga: states, events, commands, and the table that relates them.

No I/O, no clock, no randomness.
"""
