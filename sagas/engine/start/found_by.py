"""What a new saga is found by: values of its request, which its first entry names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sagas.authoring.codec import decode, encode
from sagas.engine.registry import SagaType
from sagas.errors import InvalidRequest
from sagas.store.journal.entries import Entry


def values_of(saga_type: SagaType, request: Any) -> dict[str, str]:
    """Return what a new saga is found by, by name: values of its request, written as its type writes them."""
    definition = saga_type.definition
    if not definition.find_by:
        return {}
    written = encode(decode(request, definition.request_type), definition.request_type)
    found = {one.name: one.value(written) for one in definition.find_by}
    return {name: value for name, value in found.items() if value is not None}


def named(values: Mapping[str, str]) -> dict[str, Any]:
    """Return what the first entry tells of these values: their names. By these a purge finds their items."""
    return {"found_by": sorted(values)} if values else {}


def found_by(saga_type: SagaType, entry: Entry) -> dict[str, str]:
    """Return what a saga is found by, from its first entry. Of a value that is not known any more there is none."""
    names = entry.details.get("found_by", ())
    if not names or entry.payload is None:
        return {}
    try:
        values = values_of(saga_type, json.loads(entry.payload))
    except InvalidRequest:  # the type takes no such request any more: then nothing of it can be run either
        return {}
    return {name: value for name, value in values.items() if name in names}
