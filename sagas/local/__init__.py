"""The local stack: an embedded AWS emulator with the synthesized template deployed to it."""
