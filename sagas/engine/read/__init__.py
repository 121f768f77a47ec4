"""Read sagas: the API's answers about them."""
