"""Who moved a dead letter back to its queue, and why: two attributes of the copy, for its saga's audit trail.

SQS's own task moves messages as they are, and so says neither. Nobody has checked what an attribute says: what
does not fit is passed over, and the message counts as one without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from sagas.core.ids import LONGEST_NOTE
from sagas.core.text import NOT_XML
from sagas.errors import InvalidRequest, Problem

BY = "redriven_by"
"""The attribute with the mover's ARN."""
NOTE = "redrive_note"
"""The attribute with the reason."""

# Only a principal's ARN: an attribute must not pass for the API's other callers, or for the service itself.
_PRINCIPAL = re.compile(r"arn:[a-z-]{1,20}:(?:iam|sts)::[0-9]{12}:[!-~]{1,900}")


def check_note(note: str) -> None:
    """Refuse a note that a message cannot bring along."""
    if len(note) > LONGEST_NOTE:
        raise InvalidRequest("the note is too long", [Problem("note", f"has more than {LONGEST_NOTE} characters")])
    if NOT_XML.search(note):
        told = Problem("note", "has a control character, or half of a character")
        raise InvalidRequest("the note cannot be sent", [told])


def told_by(attributes: Mapping[str, Any], by: str, note: str) -> dict[str, Any]:
    """Return the attributes of a letter's copy: the letter's, and who moves it now in place of who did before."""
    kept = {name: value for name, value in attributes.items() if name not in (BY, NOTE)}
    told = {name: {"DataType": "String", "StringValue": text} for name, text in ((BY, by), (NOTE, note)) if text}
    return kept | told


def told_in(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return who moved a message back, and why; either is empty if it does not say, or what it says does not fit."""
    by, note = _text(record, BY), _text(record, NOTE)
    usable = len(note) <= LONGEST_NOTE and not NOT_XML.search(note)
    return by if _PRINCIPAL.fullmatch(by) else "", note if usable else ""


def _text(record: Mapping[str, Any], name: str) -> str:
    found: Any = record.get("messageAttributes")
    for key in (name, "stringValue"):
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""
