"""Deploy an app to the emulator."""
