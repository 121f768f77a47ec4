"""The OpenAPI document that API Gateway imports: the routes of a service's own API as one resource.

It only routes and authorizes. Callers read the document at ``/openapi.json``, whose version 3.1 API Gateway does not
import. The function checks requests, so this document has no schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aws_cdk import Aws

Json = dict[str, Any]

FUNCTION = "function"
ALIAS = "alias"
"""Stage variables that name the function and its alias. A document that named them itself would make the API depend on
the function, and functions depend on the API, whose URL they use."""
_SIGNED = "sigv4"
_SCHEME: Json = {
    "type": "apiKey",
    "name": "Authorization",
    "in": "header",
    "x-amazon-apigateway-authtype": "awsSigv4",
}
_INVOKE = f"arn:{Aws.PARTITION}:apigateway:{Aws.REGION}:lambda:path/2015-03-31/functions"
_NAMED = f"${{stageVariables.{FUNCTION}}}:${{stageVariables.{ALIAS}}}"
_URI = f"{_INVOKE}/arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{_NAMED}/invocations"


def api_document(
    title: str,
    routes: Mapping[str, Iterable[str]],
    public_routes: Mapping[str, Iterable[str]],
    responses: Mapping[str, tuple[str, str]],
) -> Json:
    """Return the document. ``title``: the API's name. ``routes`` are methods by path that require a signature, and
    ``public_routes`` those that require none. ``responses`` are the gateway's own by kind: the status (empty:
    unchanged) and the template of the body."""
    paths = Json()
    kinds: list[tuple[list[Json], Mapping[str, Iterable[str]]]] = [([{_SIGNED: []}], routes), ([], public_routes)]
    for security, of_kind in kinds:
        for route, methods in of_kind.items():
            path = paths.setdefault(f"/{route}", Json())
            for method in methods:
                path[method.lower()] = {
                    "security": security,
                    "responses": Json(),
                    "x-amazon-apigateway-integration": {"type": "aws_proxy", "httpMethod": "POST", "uri": _URI},
                }
    shaped = {
        kind: {**({"statusCode": status} if status else {}), "responseTemplates": {"application/json": template}}
        for kind, (status, template) in responses.items()
    }
    return {
        "openapi": "3.0.1",
        "info": {"title": title, "version": "1"},
        "paths": paths,
        "components": {"securitySchemes": {_SIGNED: _SCHEME}},
        "x-amazon-apigateway-gateway-responses": shaped,
    }
