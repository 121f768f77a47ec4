"""Additions to the emulator's IAM, which apply if IAM is enforced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Query = dict[str, list[str]]


def check_signatures_of_root(app: Any, evaluator: Any) -> None:
    """Check the signatures of the root user, too. The emulator itself checks only those of other principals."""
    pin: Callable[..., None] = app.pin_signed_request

    def pin_all(method: str, path: str, query: Query, lines: list[tuple[bytes, bytes]]) -> None:
        pin(method, path, query, lines)
        if evaluator._signed_request.get() is not None:
            return
        headers: dict[str, str] = {}
        for name, value in lines:
            key = name.decode("latin-1").lower()
            text = value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
        by_header = headers.get("authorization", "").startswith("AWS4-")
        # The emulator's S3 checks presigned URLs itself.
        if by_header or evaluator._query_signed(query):
            signer = app.extract_access_key_id(headers, query)
            signed = evaluator.SignedRequest(signer, method, path, query, headers, presigned=not by_header)
            evaluator._signed_request.set(signed)

    app.pin_signed_request = pin_all


def check_scopes_of_signatures(app: Any, evaluator: Any, sigv4: Any, api_gateway: Any) -> None:
    """Make APIs refuse requests that were signed for another service."""
    enforce: Callable[..., Any] = app._enforce_execute_api

    def enforce_scope(api: str, stage: str, method: str, path: str, headers: Any, query: Query, **more: Any) -> Any:
        denied = enforce(api, stage, method, path, headers, query, **more)
        if denied or not app.AUTH or app._execute_api_authorization_type(api, stage, method, path) != "AWS_IAM":
            return denied
        by_header = "authorization" in headers
        signature = sigv4.parse_header_signature(headers) if by_header else sigv4.parse_query_signature(query)
        if getattr(signature, "service", "execute-api") == "execute-api":  # a missing signature is refused later
            return None
        text = "Credential should be scoped to correct service: 'execute-api'. "
        error = evaluator.AuthError("SignatureDoesNotMatch", text)
        return api_gateway.authentication_error_response(api, stage, error, headers, query)

    app._enforce_execute_api = enforce_scope


def add_version_stages(iam_actions: Any) -> None:
    """Let policies have conditions on the requested version stage of a secret."""
    context_of: Callable[..., dict[str, Any]] = iam_actions.request_tag_context

    def context(service: str, action: str, body: bytes, *others: Any) -> dict[str, Any]:
        values = context_of(service, action, body, *others)
        stage = iam_actions._safe_json_field(body, "VersionStage") if service == "secretsmanager" else ""
        return {**values, "secretsmanager:VersionStage": stage} if stage else values

    iam_actions.request_tag_context = context
