"""JSON builtins as one DynamoDB map. PynamoDB's own dynamic map adds members of its own when it is read back."""

from __future__ import annotations

import json
from typing import Any, cast

from pynamodb.attributes import Attribute
from pynamodb.constants import MAP

MARK = "encrypted1:"
"""What an encrypted payload begins with: no JSON does."""


class DocumentAttribute(Attribute[dict[str, Any]]):
    """An object of JSON builtins, in DynamoDB's own types so that it can be read in the console."""

    attr_type = MAP

    def serialize(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return DynamoDB's form of an object."""
        return {key: packed(member) for key, member in value.items()}

    def deserialize(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the object again."""
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
            # An exception's text may hold half a character, as file names do; DynamoDB's strings are UTF-8.
            return {"S": value.encode(errors="backslashreplace").decode()}
        case dict():
            return {"M": {key: packed(member) for key, member in cast("dict[str, Any]", value).items()}}
        case list() | tuple():
            return {"L": [packed(member) for member in cast("list[Any]", value)]}
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")


def unpacked(stored: dict[str, Any]) -> Any:
    """Return the JSON builtin again; a whole number comes back as ``int``."""
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
