"""``python -m tests.load [words]``: plays the stories, and prints what became of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.load.stories import STORIES, Told


def shown(name: str, told: Told) -> str:
    """One story's figures."""
    ends = ", ".join(f"{count} {status}" for status, count in sorted(told.statuses.items()))
    more = "".join(f"; {what}: {figure:g}" for what, figure in told.more.items())
    return (
        f"{name}: {told.sagas} sagas (1 : {told.factor:g}): {ends}; the last after {told.over_after / 60:.0f} min; "
        f"sent anew {told.sent_anew} times, one at most {told.most_sent_anew}; {told.attention} need a person; "
        f"{told.invocations} invocations, {told.dead} dead letters{more} ({told.took:.0f} s)"
    )


def main(words: Sequence[str]) -> None:
    """Play all stories, or those whose name has one of the words in it."""
    for name, story in STORIES.items():
        if not words or any(word in name for word in words):
            print(shown(name, story()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
