"""The automaton of a saga: states, events, commands, and the table that relates them.

It uses no I/O, clock or randomness.
"""
