"""What processes send and get, as JSON text: cheap to keep, to compare and to give again. Bytes are in base64."""

from __future__ import annotations

import base64
import json
from typing import Any


def text_of(value: Any) -> str:
    """Return a request, an answer or an item as text."""
    return json.dumps(value, sort_keys=True, default=_encoded)


def value_of(text: str) -> Any:
    """Return it again."""
    return json.loads(text, object_hook=_decoded)


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decoded(value: dict[str, Any]) -> dict[str, Any]:
    return {"B": base64.b64decode(value["B"])} if [*value] == ["B"] else value
