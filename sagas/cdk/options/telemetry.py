"""Tracing by OpenTelemetry: the variables of the functions, and what their layer needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sagas.cdk.options.service_options import within
from sagas.errors import DefinitionError

_EXPORTER = "OTEL_TRACES_EXPORTER"


@dataclass(frozen=True, slots=True)
class OpenTelemetry:
    """Where spans go, and which: ``SagaService(environment=OpenTelemetry("http://...").environment)``.

    Args:
        endpoint: of a collector, by OTLP over HTTP; spans go to ``/v1/traces`` below it. A collector that needs a key
            needs ``OTEL_EXPORTER_OTLP_HEADERS`` besides, which all see who may read the function's configuration.
        sample: the share of sagas that are traced, 0 to 1: of those whose caller has not decided.

    Raises:
        DefinitionError: a value is out of range.
    """

    endpoint: str
    sample: float = 1.0

    def __post_init__(self) -> None:
        within("OpenTelemetry", "sample", self.sample, 0, 1)
        parts = urlsplit(self.endpoint)
        # A token, whose value only the deployment knows, is believed to be one.
        if "${Token" not in self.endpoint and (parts.scheme not in ("http", "https") or not parts.netloc):
            raise DefinitionError(f"OpenTelemetry: endpoint must be a URL by http or https, not {self.endpoint!r}")

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables; add others, such as ``OTEL_RESOURCE_ATTRIBUTES``, as you like."""
        return {
            _EXPORTER: "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": f"{self.sample:g}",
        }


def needed_extras(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the extras of the library that functions with these variables need."""
    return ("otel",) if environment.get(_EXPORTER, "none").strip().lower() not in ("", "none") else ()
