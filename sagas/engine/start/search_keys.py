"""Search keys: values of a request by which sagas can be found, and by which people recognize them in lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import REQUEST
from sagas.engine.registry import SagaType
from sagas.errors import TypeChanged
from sagas.paths import path_text
from sagas.store.index.search_keys import LONGEST
from sagas.store.journal.entries import Entry

_LONGEST_LABEL = 100
"""Maximum characters of a label."""


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


def named(definition: SagaDefinition, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the first entry's details about search keys: their names and paths, and the label made of them.

    A purge needs the names to find the items. A reader needs the paths to know whether the label may still be shown.
    """
    if not values:
        return {}
    paths = {key.name: path_text(key.path) for key in definition.find_by if key.name in values}
    label = label_of(values)
    return {"found_by": paths} | ({"label": label} if label else {})


def label_of(values: Mapping[str, str]) -> str:
    """Return what a saga is about, in at most 100 characters, like ``order o-17 · customer c-5``. Values of more than
    128 bytes are left out."""
    short = {name: value for name, value in values.items() if len(value.encode(errors="surrogatepass")) <= LONGEST}
    label = " · ".join(f"{name} {value}" for name, value in short.items())
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


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
