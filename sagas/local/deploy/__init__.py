"""How an app gets into the emulator."""
