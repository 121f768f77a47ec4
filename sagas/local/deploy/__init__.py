"""Deploys an app to the emulator."""
