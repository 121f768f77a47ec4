"""The emulator, and where it differs from AWS."""
