"""Search keys: values of a request by which sagas can be found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import REQUEST
from sagas.engine.registry import SagaType
from sagas.errors import TypeChanged
from sagas.store.journal.entries import Entry


def values_of(saga_type: SagaType, request: Any) -> dict[str, str]:
    """Return the search keys of a request: values by name, encoded as the saga type encodes them."""
    definition = saga_type.definition
    if not definition.find_by:
        return {}
    return _values(definition, decode(request, definition.request_type))


def _values(definition: SagaDefinition, request: object) -> dict[str, str]:
    # The request has been read from JSON, and is not stored in this form.
    written = encode(request, definition.request_type, reads_back=False)
    values = {key.name: key.value(written) for key in definition.find_by}
    return {name: value for name, value in values.items() if value is not None}


def named(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the first entry's details about search keys: their names, which a purge needs to find the items."""
    return {"found_by": sorted(values)} if values else {}


def search_keys_of(saga_type: SagaType, entry: Entry) -> dict[str, str]:
    """Return a saga's search keys from its first entry, except those that its type no longer declares."""
    names = entry.details.get("found_by", ())
    if not names or entry.payload is None:
        return {}
    try:
        values = _values(saga_type.definition, saga_type.definition.stored(REQUEST, json.loads(entry.payload)))
    except TypeChanged:  # the type no longer accepts this request, so the saga cannot run and needs no keys
        return {}
    return {name: value for name, value in values.items() if name in names}
