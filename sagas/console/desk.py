"""The context that all pages of the console share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sagas.client.read.advice import why
from sagas.client.read.next_action import Do, breaker_error, error_of
from sagas.console.blocks import Blocks
from sagas.console.guard import Session
from sagas.console.jobs import Jobs
from sagas.console.links import Links
from sagas.console.redaction import ConsoleRedaction, scrubbed
from sagas.console.source import Source
from sagas.core.text import ago, between, day, details_text, end_of, moment, plain, span
from sagas.errors import SagaError
from sagas.operations import VERBS
from sagas.paths import parse_path
from sagas.spellings import HIDDEN

_LONGEST = 64 * 1024
"""A page shows at most this many characters of a text. The download has the whole text."""
_LONGEST_ERROR = 300
"""A list shows at most this many characters of an error."""
_TIME = re.compile(r"(<time[^>]*>)[^<]*")
LABELS: Mapping[str, str] = {
    name: operation.verb.label for name, operation in VERBS.items() if operation.verb.label
} | {
    Do.RECOVER: "Recover now",
    Do.RERUN: "Run again",
    Do.SIGNAL: "Send the signal",
    Do.BREAKER: "Close the breaker",
    Do.NOTHING: "",
}
"""The labels of the buttons."""
CONSEQUENCES: Mapping[str, str] = {name: operation.verb.effect for name, operation in VERBS.items()} | {
    Do.RECOVER: "The supervisor checks it now, takes over from a dead worker, and sends a lost message again.",
    Do.RERUN: "A new saga starts with the same request; this saga does not change.",
}
"""The effect of each button, in a sentence."""
LOCAL = "local"
"""The name of the stack on this machine."""
_BIDI = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
AT_ONCE = (*(name for name, operation in VERBS.items() if operation.verb.at_once), Do.RECOVER)
"""The actions on one saga that need no confirmation."""


@dataclass(slots=True)
class Desk:
    """The context of the pages. ``stack`` is the service's stack, or :data:`LOCAL`. ``clock``: epoch seconds.
    ``ahead``: seconds by which this clock is ahead of the browser's."""

    source: Source
    session: Session
    redaction: ConsoleRedaction
    stack: str
    region: str
    clock: Callable[[], float]
    jobs: Jobs
    read_only: bool = False
    ahead: Callable[[], float] = float
    links: Links = field(default_factory=Links)
    _unread_since: dict[str, float] = field(default_factory=dict[str, float])
    _templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader("sagas.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_with_visible_bidi,
        )
        self._templates.filters |= {
            "ago": self._ago,
            "breaker_error": breaker_error,
            "day": day,
            "moment": moment,
            "details_text": details_text,
            "span": span,
            "why": why,
            "plain": plain,
            "q": lambda text: quote(str(text), safe=""),
            "json": self.text_of,
            "compact": lambda record: json.dumps(msgspec.to_builtins(record)),
            "words": lambda text: str(text).replace("_", " ").lower(),
        }
        shared: dict[str, Any] = {
            "between": between,
            "end_of": end_of,
            "labels": {str(do): label for do, label in LABELS.items()},
            "consequences": {str(do): text for do, text in CONSEQUENCES.items()},
            "at_once": [str(do) for do in AT_ONCE],
            "options": {name: operation.options for name, operation in VERBS.items()},
            "needed": {name: operation.needed for name, operation in VERBS.items()},
            "stack": self.stack,
            "region": self.region,
            "read_only": self.read_only,
            "links": self.links,
            "ahead": lambda: round(self.ahead()),
            "label_of": self.label,
        }
        self._templates.globals.update(shared)

    def _ago(self, text: str | None) -> str:
        return ago(text, self.clock())

    def blocks(self, *, rest: bool = False) -> Blocks:
        """Return what reads the blocks of a page. ``rest``: whether the page has more than these."""
        return Blocks(self._unread_since, self.clock(), rest=rest)

    def page(
        self, request: Request, template: str, http_status: int = 200, /, blocks: Blocks | None = None, **context: Any
    ) -> Response:
        """Return a page, or 304 if the browser already has the same page. The page names those of its ``blocks`` that
        could not be read. If there is nothing else to show, their first error is raised."""
        text = self._templates.get_template(template).render(
            csrf=self.session.csrf,
            path=request.url.path,
            query=dict(request.query_params),
            posted=request.method == "POST",
            counts_of=self.source.counts(),
            unread=blocks.unread if blocks is not None else (),
            # The local stack has only one caller, so do not show it.
            caller=self.source.caller() if self.stack != LOCAL else "",
            **context,
        )
        # A message may contain half a surrogate pair, which UTF-8 cannot encode.
        text = text.encode("utf-8", "replace").decode()
        # Pages that differ only in relative times count as the same.
        lasting = _TIME.sub(lambda time: time[1], text)
        tag = f'"{sha256(lasting.encode()).hexdigest()[:24]}"'
        if http_status == 200 and request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return HTMLResponse(text, http_status, {"ETag": tag})

    def text_of(self, value: Any) -> str:
        """Return JSON as indented text. Long texts are cut."""
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return _cut(str(value))
        return _cut(json.dumps(value, indent=2, ensure_ascii=False))

    def view_of(self, saga: Mapping[str, Any]) -> tuple[Any, list[str]]:
        """Return a saga with redacted values, and the texts that were redacted."""
        hidden = list[str]()
        view = {**saga, "label": self.label(saga) or None}
        for name in ("request", "result"):
            if name in view:
                view[name] = self.redaction.apply(view[name], hidden)
        view["steps"] = [
            {**step, "result": self.redaction.apply(step["result"], hidden)} for step in view.get("steps", ())
        ]
        for step in view["steps"]:
            if step.get("children"):
                # The saga's rules do not say which values of a child to redact.
                failures = [
                    {
                        **failure,
                        "label": self.label(failure) or None,
                        "error": failure["error"] and {**failure["error"], "message": HIDDEN},
                    }
                    for failure in step["children"].get("failures", ())
                ]
                step["children"] = {**step["children"], "failures": failures}
        return scrubbed(view, hidden), hidden

    def label(self, saga: Mapping[str, Any]) -> str:
        """Return the label of a saga; empty if it has none, or if the console hides a search key of its type."""
        if not saga["label"]:
            return ""
        try:
            types = self.source.types()
        except SagaError:  # without the types, nobody knows what to hide
            return ""
        paths = [path for each in types if each["type"] == saga["type"] for path in each["find_by"].values()]
        return "" if not paths or any(self.redaction.hides(parse_path(path)) for path in paths) else saga["label"]

    def error(self, summary: Mapping[str, Any], full: Mapping[str, Any] | None) -> str:
        """Return the error of a listed saga. The message needs the full saga, which shows what to redact."""
        if full is None or not self.redaction.payloads:
            return error_of(summary)[1]
        # Do not use the list's error: its text is cut, perhaps within a value to redact.
        _, kind, message = error_of({**self.view_of(full)[0], "attention": None})
        return f"{kind}: {message}"[:_LONGEST_ERROR] if message else kind

    def saga_path(self, name: str, saga_id: str) -> str:
        """Return the path of a saga's page. The path also names the service."""
        return "/" + "/".join(quote(part, safe="") for part in (self.stack, self.region, "sagas", name, saga_id))


def _with_visible_bidi(value: Any) -> Any:
    """Escape characters that control the writing direction in a template's value: they are invisible, and can make one
    text look like another. A value marked with ``|e`` does not change, because a form sends it back."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _BIDI.sub(lambda control: f"\\u{ord(control[0]):04x}", value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + f"\n… {len(text) - _LONGEST:,} more characters"
