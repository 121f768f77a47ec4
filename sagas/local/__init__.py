"""The local stack: an embedded emulator of AWS, and the synthesized template deployed to it."""
