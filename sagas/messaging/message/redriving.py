"""The caller who redrove a dead letter, and the reason. They are attributes of the copy, for the audit trail.

SQS's own redrive task moves messages unchanged, so they have neither attribute. Invalid attributes are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from sagas.core.ids import LONGEST_REASON
from sagas.core.text import outside_xml
from sagas.errors import InvalidRequest, Problem

BY = "redriven_by"
"""The attribute with the caller's ARN."""
REASON = "redrive_reason"
"""The attribute with the reason."""

# Only ARNs of principals are valid, so an attribute cannot impersonate other API callers or the service.
_PRINCIPAL = re.compile(r"arn:[a-z-]{1,20}:(?:iam|sts)::[0-9]{12}:[!-~]{1,900}")


def check_reason(reason: str) -> None:
    """Refuse a reason that a message cannot contain."""
    if len(reason) > LONGEST_REASON:
        raise InvalidRequest("the reason is too long", [Problem("reason", f"longer than {LONGEST_REASON} characters")])
    if outside_xml(reason):
        problem = Problem("reason", "has a control character or half a surrogate pair")
        raise InvalidRequest("the reason cannot be sent", [problem])


def redrive_attributes(attributes: Mapping[str, Any], by: str, reason: str) -> dict[str, Any]:
    """Return the attributes for the copy of a dead letter: the dead letter's own, with this caller and reason."""
    others = {name: value for name, value in attributes.items() if name not in (BY, REASON)}
    own = {name: {"DataType": "String", "StringValue": text} for name, text in ((BY, by), (REASON, reason)) if text}
    return others | own


def redriver_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the caller who redrove a message, and the reason. Either is empty if it is missing or invalid."""
    by, reason = _text(record, BY), _text(record, REASON)
    usable = len(reason) <= LONGEST_REASON and not outside_xml(reason)
    return by if _PRINCIPAL.fullmatch(by) else "", reason if usable else ""


def _text(record: Mapping[str, Any], name: str) -> str:
    value: Any = record.get("messageAttributes")
    for key in (name, "stringValue"):
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
