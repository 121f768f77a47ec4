"""Blueprints. Each blueprint is stored before the first saga that names it, and read to check a release."""

from __future__ import annotations

from collections.abc import Iterable

from sagas.authoring.definition.definition import SagaDefinition
from sagas.engine.clock import Clock
from sagas.lock.content import Content, blueprint_in, blueprint_of, body_of, hash_of
from sagas.store.types.blueprints import BlueprintItems


class Blueprints:
    """The blueprints of saga types. An environment remembers each name that it has stored."""

    def __init__(self, items: BlueprintItems, clock: Clock) -> None:
        self._items = items
        self._clock = clock
        self._stored = dict[str, str]()
        self._read = dict[str, Content]()

    def name(self, definition: SagaDefinition) -> str:
        """Store a type's blueprint and the blueprints of the children's types. Return the name of the type's
        blueprint."""
        if definition.name not in self._stored:
            types = {each.name: each for each in (definition, *definition.family) if each.name not in self._stored}
            names = self._items.names(types)
            for each in types.values():
                blueprint = blueprint_of(each)
                name = hash_of(blueprint)
                if name not in names.get(each.name, ()):
                    self._items.put(each.name, name, body_of(blueprint), each.version, self._clock.now())
                self._stored[each.name] = name
        return self._stored[definition.name]

    def started(self, saga: str) -> frozenset[str]:
        """Return the names of all blueprints of a type; empty if it has never had a saga."""
        return self._items.names([saga]).get(saga, frozenset())

    def read(self, saga: str, names: Iterable[str]) -> dict[str, Content]:
        """Return blueprints of a type by name, except those that are missing or were altered."""
        unread = [name for name in names if name not in self._read]
        for name, body in self._items.bodies(saga, unread).items():
            blueprint = blueprint_in(body)
            if blueprint is not None and hash_of(blueprint) == name:
                self._read[name] = blueprint
        return {name: self._read[name] for name in names if name in self._read}
