"""Unions. A value must be decoded as the member that encoded it, so members that look alike in JSON are refused."""

from __future__ import annotations

from typing import Any

from sagas.authoring.shapes.base import Path, Problems, SchemaDefinitions, Shape, json_type_of
from sagas.authoring.shapes.scalars import Float


class Union(Shape):
    """One of several types. The first member that fits encodes or decodes a value.

    Args:
        members: the members' shapes, in order.
    """

    def __init__(self, members: list[Shape]) -> None:
        self.members = members
        self.json_types = frozenset(kind for member in members for kind in member.json_types)
        self.hashable = all(member.hashable for member in members)
        self.label = " or ".join(member.label for member in members)

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        return self._first([m for m in self.members if m.holds(value)], "encode", value, at, problems)

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        """Decode with the first member that accepts the data. If a member is float, ``1.0`` is decoded as a float."""
        fitting = [member for member in self.members if member.accepts(data)]
        if isinstance(data, float):
            fitting.sort(key=lambda member: not isinstance(member, Float))
        if not fitting:
            kind = json_type_of(data)
            near = [member for member in self.members if kind in member.json_types]
            fitting = near if len(near) == 1 else []  # if only one member has this kind, its problems say most
        return self._first(fitting, "decode", data, at, problems)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"anyOf": [member.schema(definitions) for member in self.members]}

    def holds(self, value: Any) -> bool:
        return any(member.holds(value) for member in self.members)

    def accepts(self, data: Any) -> bool:
        return any(member.accepts(data) for member in self.members)

    def _first(self, candidates: list[Shape], method: str, value: Any, at: Path, problems: Problems) -> Any:
        if len(candidates) == 1:
            return getattr(candidates[0], method)(value, at, problems)
        key = (id(self), id(value), method)
        if key not in problems.tried:
            outcome = (value, False, None)
            for candidate in candidates:
                trial = Problems(problems.tried)
                result = getattr(candidate, method)(value, at, trial)
                if not trial:
                    outcome = (value, True, result)
                    break
            problems.tried[key] = outcome
        _, fits, result = problems.tried[key]
        return result if fits else self.expected(at, problems, value)
