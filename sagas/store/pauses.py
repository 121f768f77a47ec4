"""The pauses that are on, in one item, which each environment reads every few seconds. It has what a worker needs: the
scopes, and what each of them stops. An item per pause has the operator and the reason, so the common item stays small.

The common item also has the id of the service that the tables belong to, because every function reads this item before
it acts. A function of another service does nothing: its types, steps and queues are not those of the sagas.

Each write changes one pause, on condition that it is unchanged since it was read. The items of types and steps are
kept when their pauses end, because a release may remove a step while it is paused. There is one per name at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from sagas.core.gates import NO_PAUSE, Pause, Scope
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.errors import WrongTables
from sagas.store.connection import Refused
from sagas.store.control.mapping import Item, attributes_of, text_in, time_of
from sagas.store.tables import StoreSettings, Tables, packed, unpacked

_KEY: Item = {"saga_id": {"S": "pauses"}}
"""The key of the common item in the table of sagas, which no saga can have."""
_GOOD_FOR = 5.0
"""Seconds for which pauses are cached. After that time, a pause or its end takes effect everywhere."""
_OF = "of:"
"""Prefix of scopes in the item. It distinguishes them from the item's key."""
_SERVICE = "service"
"""The attribute with the id of the service."""
_KINDS = ("starts_only", "starts", "undos")


class Pauses:
    """The pauses that are on, cached for a few seconds, and their descriptions.

    Args:
        tables: the tables in which the pauses are stored.
        settings: the settings of the store, which name the table and this service.
        now: epoch seconds.
        stamp: returns a new nonce, which identifies a write.
        wrong: called when the tables belong to another service.
    """

    def __init__(
        self,
        tables: Tables,
        settings: StoreSettings,
        now: Callable[[], float],
        stamp: Callable[[], str],
        wrong: Callable[[WrongTables], None] = lambda error: None,
    ) -> None:
        self._tables = tables
        self._table = settings.sagas_table
        self._service = settings.service
        self._now = now
        self._stamp = stamp
        self._wrong = wrong
        self._ours = False
        self._cached: tuple[float, dict[Scope, Pause]] | None = None
        self._described: dict[Scope, Pause] = {}

    def all(self, *, fresh: bool = False) -> dict[Scope, Pause]:
        """Return the pauses that are on, without operators and reasons. Unless ``fresh``, they may come from the cache
        or an eventually consistent read, which costs half. Raises ``WrongTables`` if the tables belong to another
        service."""
        if not fresh and self._cached is not None and self._now() - self._cached[0] < _GOOD_FOR:
            return self._cached[1]
        request = {"TableName": self._table, "Key": _KEY, "ConsistentRead": fresh}
        item: Item = self._tables.connection.dispatch("GetItem", request).get("Item") or {}
        self._check_owner(item)
        pauses = {
            Scope.parse(text.removeprefix(_OF)): _pause_of(unpacked(stored))
            for text, stored in item.items()
            if text.startswith(_OF)
        }
        self.cache(pauses)
        return pauses

    def claim_tables(self) -> None:
        """Store the id of this service in tables that have none. Raises ``WrongTables`` if they belong to another
        service."""
        self.all()
        if self._ours:
            return
        request = {
            "TableName": self._table,
            "Key": _KEY,
            "UpdateExpression": "SET #service = :service",
            "ConditionExpression": "attribute_not_exists(#service)",
            "ExpressionAttributeNames": {"#service": _SERVICE},
            "ExpressionAttributeValues": {":service": {"S": self._service}},
        }
        try:
            self._tables.connection.dispatch("UpdateItem", request)
        except Refused:  # the read was not up to date, or another service was faster
            self.all(fresh=True)
        self._ours = True

    def _check_owner(self, item: Item) -> None:
        """Refuse the tables of another service. Those without an id belong to whichever service claims them first."""
        owner = text_in(item, _SERVICE)
        self._ours = owner == self._service
        if owner and not self._ours:
            error = WrongTables(self._table, owner, self._service)
            self._wrong(error)
            raise error

    def cache(self, pauses: dict[Scope, Pause]) -> None:
        """Cache the pauses for a few seconds."""
        self._cached = self._now(), pauses

    def get(self, scope: Scope, *, fresh: bool = False) -> Pause:
        """Return the pause of a scope; :data:`NO_PAUSE` if none is on. Otherwise as :meth:`all`."""
        return self.all(fresh=fresh).get(scope, NO_PAUSE)

    def described(self, pauses: Mapping[Scope, Pause]) -> dict[Scope, Pause]:
        """Return these pauses with their operators and reasons. Each is read once, as a change has a new revision."""
        cached = self._described
        unread = [scope for scope in pauses if cached.get(scope, NO_PAUSE).revision != pauses[scope].revision]
        for scope, texts in self._stored(unread).items():
            cached[scope] = replace(pauses[scope], **texts)
        return {scope: cached.get(scope, pause) for scope, pause in pauses.items()}

    def listed(self) -> dict[Scope, Pause]:
        """Return the pauses that are on, with their operators and reasons, by consistent reads."""
        return self.described(self.all(fresh=True))

    def ever(self, scope: Scope) -> bool:
        """Whether a type or step is or was paused, or a saga is paused, by a consistent read."""
        return scope in self._stored([scope])

    def holding(self, name: str, step: str, saga_id: str, *, undo: bool, fresh: bool = False) -> Scope | None:
        """Return the widest scope whose pause blocks a step or its undo; ``None`` if none does."""
        pauses = self.all(fresh=fresh)
        scopes = (Scope(name), Scope(name, step), Scope(name, saga_id=saga_id)) if pauses else ()
        return next((scope for scope in scopes if pauses.get(scope, NO_PAUSE).holds(undo=undo)), None)

    def holding_back(self, state: SagaState, *, fresh: bool = False) -> Scope | None:
        """Return the widest scope whose pause blocks a saga's next step or undo; ``None`` if none does. See
        :meth:`holding`."""
        step = state.current.name if state.current else ""
        return self.holding(state.saga, step, state.saga_id, undo=state.undoing, fresh=fresh)

    def put(self, scope: Scope, pause: Pause) -> None:
        """Store a pause or its end. ``pause`` has the revision of the pause that it replaces. Raises ``Refused`` if
        another call has changed that pause since it was read."""
        name = f"{_OF}{scope.text}"
        after = replace(pause, revision=self._stamp() if pause.on else "")
        values: Item = {":pause": packed(_short(after))} if after.on else {}
        condition = "attribute_not_exists(#scope)"
        names = {"#scope": name}
        if pause.revision:
            condition = "#scope.#revision = :revision"
            names["#revision"] = "revision"
            values[":revision"] = {"S": pause.revision}
        common: dict[str, Any] = {
            "TableName": self._table,
            "Key": _KEY,
            "ConditionExpression": condition,
            "UpdateExpression": "SET #scope = :pause" if after.on else "REMOVE #scope",
            "ExpressionAttributeNames": names,
        }
        if values:
            common["ExpressionAttributeValues"] = values
        writes = [{"Update": common}, self._description(scope, after)]
        self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": writes})
        # Do not read the item again: an eventually consistent read may return the previous pauses.
        others = {other: its for other, its in self.all().items() if other != scope}
        self.cache({**others, scope: after} if after.on else others)

    def _description(self, scope: Scope, pause: Pause) -> dict[str, Any]:
        """Return the write of a pause's own item. No reason for the pause of a single saga outlives it, as the table
        has no time to live."""
        if scope.saga_id and not pause.on:
            return {"Delete": {"TableName": self._table, "Key": _key(scope)}}
        resumed_at = iso(pause.resumed_at) if pause.resumed_at else None
        texts = {"by": pause.by, "reason": pause.reason, "at": iso(pause.at), "resumed_at": resumed_at}
        item = {name: packed(text) for name, text in texts.items() if text}
        return {"Put": {"TableName": self._table, "Item": _key(scope) | item}}

    def _stored(self, scopes: Iterable[Scope]) -> dict[Scope, dict[str, str]]:
        """Return the operators and reasons of those scopes that have items of their own."""
        by_key = {_key(scope)["saga_id"]["S"]: scope for scope in scopes}
        keys = [attributes_of({"saga_id": key}) for key in by_key]
        items = self._tables.connection.get_many(self._table, keys, consistent=True)
        return {
            by_key[text_in(item, "saga_id")]: {name: text_in(item, name) for name in ("by", "reason")} for item in items
        }


def owner_of(table: str, dynamodb: Any) -> str:
    """Return the id of the service that a table of sagas belongs to; empty if none has claimed it. ``dynamodb``: a
    client of boto3."""
    item: Item = dynamodb.get_item(TableName=table, Key=_KEY).get("Item") or {}
    return text_in(item, _SERVICE)


def _key(scope: Scope) -> Item:
    return attributes_of({"saga_id": f"pause#{scope.text}"})


def _short(pause: Pause) -> dict[str, Any]:
    kinds = {kind: True for kind in _KINDS if getattr(pause, kind)}
    return {"at": iso(pause.at), "revision": pause.revision, **kinds}


def _pause_of(stored: dict[str, Any]) -> Pause:
    starts_only, starts, undos = (kind in stored for kind in _KINDS)
    return Pause(time_of(stored["at"]), "", "", starts_only, starts, undos, revision=stored["revision"])
