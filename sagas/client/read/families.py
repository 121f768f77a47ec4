"""A saga with all its descendants: its children, their children, and so on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NotRequired, TypedDict

from sagas.client.transport import pages
from sagas.engine.read.answers import Page, SagaView, Summary
from sagas.engine.read.overviews import TypeView

_PAGE = 100


class Family(TypedDict):
    """A saga and its children. ``more`` is present if some children are left out."""

    saga: SagaView | Summary
    children: list[Family]
    more: NotRequired[bool]


def family_of(
    ask: Callable[..., Page], saga: SagaView | Summary, most: int | None = None, childless: Collection[str] = ()
) -> Family:
    """Return a saga with at most ``most`` descendants. Sagas of ``childless`` types are not asked for children."""
    return _family(ask, saga, iter(range(most)) if most is not None else itertools.count(), childless)


def childless_in(types: Iterable[TypeView]) -> list[str]:
    """Return the saga types whose steps start no children."""
    return [view["type"] for view in types if not any(step.get("children") for step in view["steps"])]


def _family(
    ask: Callable[..., Page], saga: SagaView | Summary, room: Iterator[int], childless: Collection[str]
) -> Family:
    family = Family(saga=saga, children=[])
    for page in pages(lambda cursor: ask(parent=saga["saga_id"], limit=_PAGE, cursor=cursor)):
        for child in page["sagas"]:
            if next(room, None) is None:
                return {**family, "more": True}
            leaf = child["type"] in childless
            family["children"].append({"saga": child, "children": []} if leaf else _family(ask, child, room, childless))
    return family
