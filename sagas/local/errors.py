"""The errors of the local stack. Each message is a single line that helps to fix the problem."""

from __future__ import annotations


class LocalStackError(Exception):
    """The local stack could not be started, deployed or stopped."""
