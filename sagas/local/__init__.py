"""The local stack: an embedded AWS emulator, to which the synthesized templates are deployed."""
