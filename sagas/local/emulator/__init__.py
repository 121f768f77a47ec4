"""The emulator, and adaptations where it differs from AWS."""
