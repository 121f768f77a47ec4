"""Alarms, the dashboard and traces."""
