"""Links to the traces and logs of a saga, in the AWS console or as the project's settings say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sagas.console.settings import settings_of
from sagas.core.text import epoch, iso
from sagas.errors import InvalidRequest

_XRAY = re.compile(r"1-[0-9a-f]{8}-[0-9a-f]{24}")
_W3C = re.compile(r"[0-9a-f]{32}")
_MOST_GROUPS = 50
"""A query of Logs Insights can name at most this many log groups."""
_BEFORE = 60.0
_AFTER = 3_600.0
"""The query covers this many seconds before a saga's start and after its last change."""


@dataclass(frozen=True, slots=True)
class Links:
    """The links to pages outside of the console.

    Args:
        region: the region of the stack; empty for the local stack.
        log_groups: the log groups of the functions.
        trace_url: the project's URL of a trace, with ``{trace_id}``; empty for X-Ray.
        logs_url: the project's URL of log lines, with ``{saga_id}``; empty for CloudWatch.
    """

    region: str = ""
    log_groups: Sequence[str] = ()
    trace_url: str = ""
    logs_url: str = ""

    def trace(self, trace_id: str | None) -> str:
        """Return the URL of a trace; empty if unknown."""
        if not trace_id:
            return ""
        if self.trace_url:
            return self.trace_url.replace("{trace_id}", quote(trace_id, safe=""))
        if _W3C.fullmatch(trace_id):
            trace_id = f"1-{trace_id[:8]}-{trace_id[8:]}"
        if not self.region or not _XRAY.fullmatch(trace_id):
            return ""
        return f"{self._cloudwatch}#xray:traces/{trace_id}"

    def logs(self, saga_id: str, begin: str, end: str) -> str:
        """Return the URL of a saga's log lines; empty if unknown. ``begin`` and ``end`` are ISO 8601."""
        if self.logs_url:
            return self.logs_url.replace("{saga_id}", quote(saga_id, safe=""))
        if not self.region or not self.log_groups:
            return ""
        query = f'fields @timestamp, message, step, attempt\n| filter @message like "{saga_id}"\n| sort @timestamp'
        since = iso(epoch(begin) - _BEFORE)
        until = iso(epoch(end) + _AFTER)
        groups = "".join(f"~'{_starred(group)}" for group in self.log_groups[:_MOST_GROUPS])
        detail = f"~(end~'{_starred(until)}~start~'{_starred(since)}~timeType~'ABSOLUTE~tz~'UTC"
        detail += f"~editorString~'{_starred(query)}~source~({groups}))"
        return f"{self._cloudwatch}#logsV2:logs-insights?queryDetail={detail}"

    @property
    def metrics(self) -> str:
        """The URL of the dashboards in the stack's region; empty for the local stack."""
        return f"{self._cloudwatch}#dashboards:" if self.region else ""

    @property
    def _cloudwatch(self) -> str:
        place = f"{self.region}.console.aws.amazon.com"
        if self.region.startswith("cn-"):
            place = "console.amazonaws.cn"
        elif self.region.startswith("us-gov-"):
            place = "console.amazonaws-us-gov.com"
        return f"https://{place}/cloudwatch/home?region={self.region}"


def links_of(project: Path, region: str = "", log_groups: Sequence[str] = ()) -> Links:
    settings = settings_of(project)
    urls = dict[str, str]()
    for name, placeholder in (("trace_url", "{trace_id}"), ("logs_url", "{saga_id}")):
        url: Any = settings.get(name, "")
        if url and not (isinstance(url, str) and re.match(r"https?://[^\s]+$", url) and placeholder in url):
            expected = f"must be an http URL with {placeholder} in it, not {url!r}"
            raise InvalidRequest(f"{project / 'pyproject.toml'}: [tool.sagas.console] {name}: {expected}")
        urls[name] = url
    return Links(region, tuple(log_groups), **urls)


def _starred(text: str) -> str:
    """Encode a text as URLs of the CloudWatch console do."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda one: "".join(f"*{byte:02x}" for byte in one[0].encode()), text)
