"""The console in the browser: a loopback server that shows sagas and does what is asked with one's own credentials."""
