"""What can go wrong with the local stack. Each message is one line that a person can act on."""

from __future__ import annotations


class LocalStackError(Exception):
    """The local stack could not be started, deployed or stopped."""
