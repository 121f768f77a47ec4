"""The indexes that list sagas and find them by search keys."""
