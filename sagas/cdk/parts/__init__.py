"""What a part of a service is, its alarms, and how new code of it is released."""
