"""The service under amount: a simulation in virtual time, over the real handler, engine and automaton."""
