"""Whether an answer or a body is one that the API's own description allows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonschema_rs


class Description:
    """An OpenAPI document, by which answers are checked.

    Args:
        document: it.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._paths = {
            re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)): item for path, item in document["paths"].items()
        }
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def check(self, method: str, path: str, status: int, headers: Mapping[str, str], body: Any) -> None:
        """Fail unless the answer is described. An operation that is not described says nothing of its answers.

        Args:
            method: HTTP's.
            path: without the stage.
            status: of the answer.
            headers: of the answer, by names in lower case.
            body: of the answer, as JSON builtins.
        """
        for operation in self._operations(method, path):
            answers = operation["responses"]
            assert str(status) in answers, f"{method} {path} answered {status}, which is not described: {body}"
            answer = answers[str(status)]
            if "$ref" in answer:  # the answers that are errors
                assert body is not None
                answer = self._document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
                known = answer["content"]["application/json"]["examples"]
                assert body["error"]["code"] in known, f"{status} has one of the codes {[*known]}: {body}"
                assert (body["error"]["details"] is None) == (status != 422), body
            if "content" in answer:
                self._validator(answer["content"]["application/json"]["schema"]).validate(body)
            else:
                assert body is None, f"{method} {path} answered {status} with a body"
            for name, header in answer.get("headers", {}).items():
                assert name.lower() in headers or not header["required"], f"{name} is missing"

    def takes(self, method: str, path: str, body: Any) -> bool:
        """Whether a call may have a body, which is JSON builtins, by what is said of it."""
        [operation] = self._operations(method, path)
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        return self._validator(schema).is_valid(body)

    def _operations(self, method: str, path: str) -> list[dict[str, Any]]:
        return [
            item[method.lower()]
            for known, item in self._paths.items()
            if known.fullmatch(path) and method.lower() in item
        ]

    def _validator(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        key = str(schema)
        if key not in self._validators:
            whole = {**schema, "components": self._document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return self._validators[key]
