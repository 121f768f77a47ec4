"""``sagas doctor``: whether a service can be deployed, and whether a deployed service can work."""
