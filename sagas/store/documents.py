"""JSON builtins as a DynamoDB map. PynamoDB's own dynamic map would add members when read."""

from __future__ import annotations

import json
from typing import Any, cast

from pynamodb.attributes import Attribute
from pynamodb.constants import MAP

MARK = "encrypted1:"
"""The prefix of an encrypted payload. JSON never starts with it."""


class DocumentAttribute(Attribute[dict[str, Any]]):
    """An object of JSON builtins in DynamoDB's own types, readable in the AWS console."""

    attr_type = MAP

    def serialize(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return DynamoDB's form of an object."""
        return {key: packed(member) for key, member in value.items()}

    def deserialize(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the original object."""
        return {key: unpacked(member) for key, member in value.items()}


def packed(value: Any) -> dict[str, Any]:
    """Return DynamoDB's form of a JSON builtin."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": json.dumps(value)}
        case str():
            # DynamoDB's strings are UTF-8, but an exception's text may contain lone surrogates, for example from file
            # names.
            return {"S": value.encode(errors="backslashreplace").decode()}
        case dict():
            return {"M": {key: packed(member) for key, member in cast("dict[str, Any]", value).items()}}
        case list() | tuple():
            return {"L": [packed(member) for member in cast("list[Any]", value)]}
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")


def unpacked(stored: dict[str, Any]) -> Any:
    """Return the original JSON builtin. A whole number becomes an ``int``."""
    [(kind, value)] = stored.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return json.loads(value)
        case "M":
            return {key: unpacked(member) for key, member in value.items()}
        case "L":
            return [unpacked(member) for member in value]
        case _:
            return value


def is_encrypted(text: str) -> bool:
    """Whether a stored payload is encrypted; see :mod:`sagas.store.encryption`."""
    return text.startswith(MARK)
