"""The caller of the API, from the identity that API Gateway or its authorizer has verified.

The audit trail keeps the name for good, so it is a single identifier: no token, mail address or other claim. Each kind
of caller has its own prefix. So no authorizer's principal can pass for a caller of another kind, or for ``worker`` and
``supervisor``, which act in the service's own name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

ANONYMOUS = "anonymous"
"""The name of callers of a method without authorization."""

_LONGEST = 200
"""The maximum length of an identifier that is not an ARN."""
_TOKEN = re.compile(r"(?i:bearer|basic) .*|eyJ[\w-]+(?:\.[\w-]*){2,4}", re.DOTALL)
"""Credentials that an authorizer returned as its principal: a header's value, or a JSON Web Token."""


def actor_of(context: Mapping[str, Any]) -> str:
    """Return the name of the caller for the audit trail. With IAM, it is the caller's ARN, which ends in the session's
    name if a role was assumed. All sessions of an identity pool have the same name, so ``#`` and the identity's id
    follow. With a Cognito user pool, it is ``cognito:`` and the claim ``sub``, which no other user ever gets; without
    that claim, the user name. With a Lambda authorizer, it is ``authorizer:`` and the ``principalId``. A token is
    replaced by ``withheld``. An identifier that is not printable or has more than 200 characters is replaced by its
    SHA-256 digest, so that a caller always has the same name."""
    identity, authorizer = _mapping(context.get("identity")), _mapping(context.get("authorizer"))
    if arn := _text(identity.get("userArn")):
        pooled = _text(identity.get("cognitoIdentityId"))
        return f"{arn}#{pooled}" if pooled else arn
    # Only a user pool's claims are an object: a Lambda authorizer returns texts, numbers and booleans.
    claims = _mapping(authorizer.get("claims"))
    for claim in ("sub", "cognito:username", "username"):
        if name := _text(claims.get(claim)):
            return f"cognito:{_plain(name)}"
    if principal := _text(authorizer.get("principalId")):
        return f"authorizer:{_plain(principal)}"
    return _text(identity.get("caller")) or ANONYMOUS


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """An identifier. A Lambda authorizer may return a number or a boolean as its principal, too."""
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _plain(name: str) -> str:
    if _TOKEN.fullmatch(name):
        return "withheld"
    if len(name) <= _LONGEST and name.isprintable():
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
