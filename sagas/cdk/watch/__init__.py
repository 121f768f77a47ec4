"""The alarms of saga types, the dashboard, and notes of the synthesis."""
