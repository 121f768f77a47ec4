"""What the emulator's IAM lacks, where it is enforced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def check_signatures_of_root(app: Any, evaluator: Any) -> None:
    """Have the signatures of the account's owner checked, too: the emulator checks those of all others.

    Args:
        app: the emulator's module.
        evaluator: its module that checks signatures and policies.
    """
    pin: Callable[..., None] = app.pin_signed_request

    def pin_all(method: str, path: str, query: dict[str, list[str]], lines: list[tuple[bytes, bytes]]) -> None:
        pin(method, path, query, lines)
        # S3 checks the URLs that were signed for it.
        if evaluator._signed_request.get() is not None or evaluator._s3_presigned_query(query):
            return
        headers: dict[str, str] = {}
        for name, value in lines:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
        by_header = headers.get("authorization", "").startswith("AWS4-HMAC-SHA256")
        if by_header or evaluator._query_signed(query):
            signer = app.extract_access_key_id(headers, query)
            signed = evaluator.SignedRequest(signer, method, path, query, headers, presigned=not by_header)
            evaluator._signed_request.set(signed)

    app.pin_signed_request = pin_all


def add_version_stages(iam_actions: Any) -> None:
    """Have policies decide by the version of a secret that is read.

    Args:
        iam_actions: the emulator's module that tells what a call is about.
    """
    context_of: Callable[..., dict[str, Any]] = iam_actions.request_tag_context

    def context(service: str, action: str, body: bytes, *others: Any) -> dict[str, Any]:
        known = context_of(service, action, body, *others)
        stage = iam_actions._safe_json_field(body, "VersionStage") if service == "secretsmanager" else ""
        return {**known, "secretsmanager:VersionStage": stage} if stage else known

    iam_actions.request_tag_context = context
