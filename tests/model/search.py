"""Going through all that a model may come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

W = TypeVar("W")


def search(
    begin: W, moves: Callable[[W], Iterable[tuple[str, W]]], wrong: Callable[[W, list[str]], str]
) -> tuple[int, str]:
    """Go through every order; return how many moments there are, and the first thing that is wrong and the way there.

    Args:
        begin: the first moment.
        moves: what may happen next, and what it leads to.
        wrong: what is wrong at a moment, given what may happen next; empty if nothing is.
    """
    came: dict[W, tuple[W, str] | None] = {begin: None}
    level = list(came)
    while level:
        coming: list[W] = []
        for at in level:
            following = list(moves(at))
            found = wrong(at, [what for what, _ in following])
            if found:
                way, step = [found], came[at]
                while step is not None:
                    way.append(step[1])
                    step = came[step[0]]
                return len(came), " <- ".join(way)
            for what, after in following:
                if after not in came:
                    came[after] = (at, what)
                    coming.append(after)
        level = coming
    return len(came), ""
