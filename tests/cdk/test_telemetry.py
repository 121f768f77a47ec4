"""What a service that is traced by OpenTelemetry gets: its variables, and what its layer needs."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError

import pytest

from sagas.cdk import OpenTelemetry
from sagas.cdk.compute import layer
from sagas.cdk.compute.layer import PackagingError, pinned_requirements
from sagas.cdk.options.values import needed_extras
from sagas.errors import DefinitionError


def test_the_variables_are_the_standard_ones() -> None:
    assert OpenTelemetry("http://collector:4318", sample=0.05).environment == {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.05",
    }


@pytest.mark.parametrize("sample", [-0.1, 1.1, True, "all"])
def test_a_share_is_from_nothing_to_all(sample: float) -> None:
    with pytest.raises(DefinitionError, match=re.escape(f"OpenTelemetry: sample must be 0 to 1, not {sample!r}")):
        OpenTelemetry("http://collector:4318", sample=sample)


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://collector", "", "http://"])
def test_an_endpoint_is_a_url(endpoint: str) -> None:
    with pytest.raises(DefinitionError, match="OpenTelemetry: endpoint must be an http or https URL"):
        OpenTelemetry(endpoint)


def test_the_layer_has_the_packages_only_where_spans_are_exported() -> None:
    assert needed_extras({}) == needed_extras({"OTEL_TRACES_EXPORTER": "none"}) == ()
    extras = needed_extras(OpenTelemetry("http://collector:4318").environment)
    plain, traced = set(pinned_requirements()), set(pinned_requirements(extras=extras))
    assert not [pin for pin in plain if "opentelemetry" in pin or "protobuf" in pin]
    added = {pin.split("==")[0] for pin in traced - plain}
    assert {"opentelemetry-api", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http", "protobuf"} <= added
    assert not [name for name in added if name.startswith(("pytest", "aws-cdk", "typer"))]


def test_an_extra_that_is_not_installed_here_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    known = layer.distribution

    def without(name: str) -> object:
        if name.startswith("opentelemetry"):
            raise PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(layer, "distribution", without)
    with pytest.raises(PackagingError, match=r"need lambda-sagas\[otel\], but opentelemetry-.* is not installed"):
        pinned_requirements(extras=("otel",))
    assert pinned_requirements()
