"""The alarms of saga types, the dashboard, and notes that the synthesis prints."""
