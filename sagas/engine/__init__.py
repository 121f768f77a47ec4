"""The engine: claim, run, commit, dispatch. Only the engine calls the automaton."""
