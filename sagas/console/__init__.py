"""The console in the browser: a loopback server that shows sagas, and acts on them with the user's credentials."""
