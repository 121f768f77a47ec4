"""The engine: claim, run, commit, dispatch. The only caller of the automaton."""
