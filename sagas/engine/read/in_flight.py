"""Groups a type's sagas in flight by blueprint and position, to check a release against them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sagas.core.rules import listed_since
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.engine.read.overviews import InFlightGroup, InFlightView
from sagas.engine.registry import Registry
from sagas.engine.start.blueprints import Blueprints
from sagas.lock.content import FORMAT, LETTERS, Content, blueprint_of, hash_of
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import NEVER_DUE
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.journal.journal import Journal

_PAGE = 1_000
"""A page reads this many sagas, of all types."""
_EXAMPLES = 3


class InFlight(Struct, frozen=True):
    """Groups sagas."""

    registry: Registry
    control: ControlItems
    listing: Listing
    journal: Journal
    blueprints: Blueprints

    def page(self, saga: str, cursor: str | None) -> InFlightView:
        """Return a page of groups of a type's sagas. Sagas that need an operator come last. The first page has all
        blueprints of the type, and the deployed one. Other pages have the blueprints of their groups. A group can be
        on several pages."""
        names = self.blueprints.started(saga)
        current = blueprint_of(self.registry.get(saga).definition) if saga in self.registry else None
        deployed = hash_of(current) if current else None
        if deployed is None and not names:
            self.registry.get(saga)  # raises NotFound
        listed, attention, following = self._listed(saga, cursor)
        found = [*self._unlisted(listed), *self.control.readable(attention)]
        states = [state for state in found if state.saga == saga]
        details = self.journal.first_details([state.saga_id for state in states])
        named = {state.saga_id: str(details.get(state.saga_id, {}).get("blueprint", "")) for state in states}
        blueprints = self.blueprints.read(saga, {*named.values(), *(() if cursor else names)} - {""})
        groups = dict[tuple[str, str, int, str], list[SagaState]]()
        for state in states:
            name = named[state.saga_id]
            if name not in blueprints:  # missing or altered
                unknown = _by_steps(state)
                name = hash_of(unknown)
                blueprints[name] = unknown
            letters = "".join(LETTERS[step.status] for step in state.steps)
            groups.setdefault((name, state.status.value, state.cursor, letters), []).append(state)
        if current and not cursor:
            blueprints[hash_of(current)] = current
        return {
            "blueprints": blueprints,
            "deployed": deployed,
            "groups": [_group(*position, members) for position, members in sorted(groups.items())],
            "undeployed": sorted({state.saga for state in found if state.saga not in self.registry}),
            "cursor": following,
        }

    def _unlisted(self, ids: list[str]) -> list[SagaState]:
        """Read sagas, without those on the attention list, whose turn comes last."""
        return [state for state in self.control.readable(ids) if not listed_since(state)]

    def _listed(self, saga: str, cursor: str | None) -> tuple[list[str], list[str], str | None]:
        """Return the ids of sagas that may be in flight, the ids of sagas that need an operator, and the next cursor.

        In the cursor, the number of a shard precedes the position. The attention list comes after all shards.
        """
        shards = [*self.listing.due_shards, *self.listing.wait_shards]
        shards += [shard for undo in (False, True) for shard in self.listing.paused_shards(saga, undo=undo)]
        number = 0
        after = None
        if cursor is not None:
            position = IndexPosition.parse(cursor)
            first, _, sort = position.sort.partition(" ")
            number = int(first) if first.isdecimal() else 0
            after = IndexPosition(sort, position.saga_id)
        listed = list[str]()
        while number < len(shards):
            if len(listed) >= _PAGE and after is not None:
                return listed, [], IndexPosition(f"{number} {after.sort}", after.saga_id).cursor
            due = self.listing.due_page(shards[number], NEVER_DUE, after, max(1, _PAGE - len(listed)))
            listed += [position.saga_id for position in due]
            number, after = (number, due[-1]) if due else (number + 1, None)
        page = self.listing.attention(_PAGE, after.cursor if after is not None else None)
        if page.cursor is None:
            return listed, page.saga_ids, None
        last = IndexPosition.parse(page.cursor)
        return listed, page.saga_ids, IndexPosition(f"{number} {last.sort}", last.saga_id).cursor


def _by_steps(state: SagaState) -> Content:
    """Return the part of a saga's blueprint that its steps show. Steps do not show the types of values."""
    steps = [
        {"name": step.name}
        | ({"undo": list[str]()} if step.undo else {})
        | ({"waits_for": step.waits_for} if step.waits_for else {})
        | ({"pivot": True} if step.pivot else {})
        for step in state.steps
    ]
    return {"format": FORMAT, "saga": state.saga, "version": state.version, "steps": steps}


def _group(blueprint: str, status: str, cursor: int, steps: str, states: Iterable[SagaState]) -> InFlightGroup:
    oldest = sorted(states, key=lambda state: (state.created_at, state.saga_id))
    return {
        "blueprint": blueprint,
        "status": status,
        "cursor": cursor,
        "steps": steps,
        "count": len(oldest),
        "oldest": iso(oldest[0].created_at),
        "examples": [state.saga_id for state in oldest[:_EXAMPLES]],
    }
