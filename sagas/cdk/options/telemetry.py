"""Access logs, and tracing with OpenTelemetry: the functions' variables, and packages for the layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from aws_cdk import aws_s3 as s3

from sagas.cdk.options.checks import within
from sagas.errors import DefinitionError

AccessLog = Literal["off", "account", "role"]
_EXPORTER = "OTEL_TRACES_EXPORTER"


@dataclass(frozen=True, slots=True)
class OpenTelemetry:
    """The collector and the sampling of spans: ``SagaService(environment=OpenTelemetry("http://...").environment)``.

    Args:
        endpoint: the collector's URL, for OTLP over HTTP; spans go to ``/v1/traces`` below it. If the collector needs a
            key, also set ``OTEL_EXPORTER_OTLP_HEADERS``, which readers of the function's configuration can see.
        sample: the share of sagas that are traced, 0 to 1. A caller's own decision takes precedence.

    Raises:
        DefinitionError: a value is out of range.
    """

    endpoint: str
    sample: float = 1.0

    def __post_init__(self) -> None:
        within("OpenTelemetry", "sample", self.sample, 0, 1)
        parts = urlsplit(self.endpoint)
        # Accept a token: only the deployment knows its value.
        if "${Token" not in self.endpoint and (parts.scheme not in ("http", "https") or not parts.netloc):
            raise DefinitionError(f"OpenTelemetry: endpoint must be an http or https URL, not {self.endpoint!r}")

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables; add others, such as ``OTEL_RESOURCE_ATTRIBUTES``, as needed."""
        return {
            _EXPORTER: "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": f"{self.sample:g}",
        }


def needed_extras(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the library's extras that functions with these variables need."""
    return ("otel",) if environment.get(_EXPORTER, "none").strip().lower() not in ("", "none") else ()


@dataclass(frozen=True, slots=True)
class AccessLogs:
    """What is logged of calls of the API, and of requests to the buckets that the service creates.

    Args:
        api: whether and by which role the API logs calls, as ``access_log`` without this class.
        execution: whether API Gateway also logs the errors of its own execution, without bodies. It creates the log
            group ``API-Gateway-Execution-Logs_ID/v1`` itself, without a retention or your key. Needs ``api``.
        bucket: your bucket for the access logs of the service's buckets, below the service's name. S3 can write only
            to one that it encrypts with its own keys. The policy of an imported bucket must let S3 write.

    Raises:
        DefinitionError: ``execution`` without ``api``.
    """

    api: AccessLog = "off"
    execution: bool = False
    bucket: s3.IBucket | s3.BucketBase | None = None

    def __post_init__(self) -> None:
        if self.execution and self.api == "off":
            raise DefinitionError('AccessLogs: execution needs a role: set api="account" or api="role"')
