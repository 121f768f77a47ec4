"""Who called the API, by the identity that API Gateway or its authorizer has checked.

The audit trail keeps the name for good, so it is one identifier and nothing else: no token, no mail address, no other
claim. Each kind of caller has a prefix of its own, so that no authorizer's principal can pass for another kind, or for
``worker`` and ``supervisor``, which act in the service's own name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

ANONYMOUS = "anonymous"
"""Nobody was asked who they are: the method has no authorization."""

_LONGEST = 200
"""Characters of an identifier that is not IAM's own."""
_TOKEN = re.compile(r"(?i:bearer|basic) .*|eyJ[\w-]+(?:\.[\w-]*){2,4}", re.DOTALL)
"""Credentials that an authorizer handed on as its principal: a header's value, or a JSON Web Token."""


def actor_of(context: Mapping[str, Any]) -> str:
    """Return who calls, as the audit trail keeps it. Returns with IAM the caller's ARN: an assumed role's ends in the
    name of its session; with an identity pool, whose sessions all have one name, the identity's id follows after
    ``#``. With a Cognito user pool ``cognito:`` and the claim ``sub``, which is never given to another user, or
    without one the user name. With a Lambda authorizer ``authorizer:`` and its ``principalId``. For a token it says
    ``withheld``; an identifier of more than 200 characters, or one that is not printable, becomes its SHA-256
    digest, so that the same caller keeps one name."""
    identity, authorizer = _mapping(context.get("identity")), _mapping(context.get("authorizer"))
    if arn := _text(identity.get("userArn")):
        pooled = _text(identity.get("cognitoIdentityId"))
        return f"{arn}#{pooled}" if pooled else arn
    # Only a user pool's claims are an object: what a Lambda authorizer returns are texts, numbers and booleans.
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
    """An identifier; numbers and booleans are what a Lambda authorizer may name its principal, too."""
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _plain(name: str) -> str:
    if _TOKEN.fullmatch(name):
        return "withheld"
    if len(name) <= _LONGEST and name.isprintable():
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
