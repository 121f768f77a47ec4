"""The parts of a service, their alarms, and releases of new code."""
