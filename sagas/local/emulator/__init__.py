"""The emulator, and adaptations of templates where the emulator differs from AWS."""
