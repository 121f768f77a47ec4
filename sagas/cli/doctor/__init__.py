"""``sagas doctor``: whether a service can be deployed, and whether what is deployed can work."""
