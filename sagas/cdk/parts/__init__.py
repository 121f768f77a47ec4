"""The interface of a service's parts, alarms, and releases of new code."""
