"""What a service has and costs while nothing happens: by its template, and as ``docs/operations/deploying.md`` says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sagas.cli.main import app
from tests.cdk.rendered import of_type, service
from tests.cdk.saga_classes import saga_of
from tests.e2e.conftest import project_in

Template = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations" / "deploying.md"
MINUTES = 730 * 60
"""Of a month."""
_UNITS = {"minute": 1, "hour": 60, "day": 24 * 60}


def ticks(rule: Template) -> int:
    """How often a rule fires in a month."""
    schedule = rule.get("ScheduleExpression", "")
    if every := re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", schedule):
        return MINUTES // (int(every[1]) * _UNITS[every[2]])
    if every := re.fullmatch(r"cron\(0/(\d+) \* \* \* \? \*\)", schedule):
        return MINUTES // int(every[1])
    assert not schedule, f"no price for {schedule}"
    return 0


def idle(template: Template) -> dict[str, float]:
    """USD a month by the rows of the page: list prices in us-east-1, without free tiers."""
    sources = of_type(template, "AWS::Lambda::EventSourceMapping")
    metrics = [
        sum("MetricStat" in metric for metric in alarm["Metrics"]) if "Metrics" in alarm else 1
        for alarm in of_type(template, "AWS::CloudWatch::Alarm")
    ]
    calls = sum(map(ticks, of_type(template, "AWS::Events::Rule")))
    traced = any("TracingConfig" in function for function in of_type(template, "AWS::Lambda::Function"))
    return {
        "polling": sum(0.26 if "ScalingConfig" in source else 0.10 for source in sources),
        "alarms": 0.10 * sum(metrics),
        "dashboard": 3.00 * len(of_type(template, "AWS::CloudWatch::Dashboard")),
        "the supervisor": 0.12,
        "its traces": calls * 5.00 / 1_000_000 if traced else 0,
        "the overview": 0.09,  # by tests/handlers/test_overview.py
        "secret": 0.40 * len(of_type(template, "AWS::SecretsManager::Secret")),
        "key": 1.00 * len(of_type(template, "AWS::KMS::Key")),
    }


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template of the project that ``sagas init`` creates."""
    project, output = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("out")
    result = CliRunner().invoke(app, ["init", str(project), "--name", "trips"])
    assert result.exit_code == 0, result.output
    project_in(project)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CDK_OUTDIR": str(output)}
    subprocess.run([sys.executable, "-m", "infra.app"], cwd=project, env=environment, check=True, capture_output=True)
    return json.loads((output / "trips.template.json").read_text())


@pytest.fixture(scope="module")
def three_steps() -> Template:
    """The template of a service of one type of three steps, without any option."""
    return service(saga_of(1, 3))


class TestDefaults:
    """A service without options, of one type of three steps."""

    def test_resources(self, three_steps: Template) -> None:
        assert len(three_steps["Resources"]) <= 60

    def test_costs(self, three_steps: Template) -> None:
        assert sum(idle(three_steps).values()) <= 2.00

    def test_of_a_new_project(self, started: Template) -> None:
        assert len(started["Resources"]) <= 60
        assert sum(idle(started).values()) <= 2.00


class TestPage:
    """What the page says of the reference stack, against its template."""

    def row(self, beginning: str) -> str:
        """The last cell of the row of the table that begins so."""
        (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {beginning}")]
        return line.split("|")[-2].strip(" *")

    @pytest.mark.parametrize("part", ["polling", "alarms", "dashboard", "the supervisor", "its traces", "the overview"])
    def test_a_part(self, part: str, template: Template) -> None:
        assert self.row(part) == f"{idle(template)[part]:.2f}"

    def test_the_sum(self, template: Template) -> None:
        parts = ("polling", "alarms", "dashboard", "the supervisor", "its traces", "the overview", "tables")
        assert self.row("**together**") == f"{sum(float(self.row(part)) for part in parts):.2f}"
        assert not idle(template)["secret"]
