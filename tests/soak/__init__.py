"""Thousands of sagas of mixed shapes on the local stack, disturbed at random, and the books counted afterwards."""
