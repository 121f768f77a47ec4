"""What a deployment would replace: recorded places of queues, tables and buckets against those of now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions
from typer.testing import CliRunner

from sagas.cdk import Archive, SagaService
from sagas.cli.main import app as command
from sagas.local.deploy import synthesis
from sagas.local.deploy.layout import compare, layouts_in, record
from sagas.local.errors import LocalStackError
from sagas.local.files import Files
from tests.cdk.saga_classes import Counted, Delivery, Loan, Shipment, Trip

KEY = "sagas:layout:Test/Shop"


def synthesize(directory: Path, *sagas: type[Any], context: dict[str, Any] | None = None, **options: Any) -> Stack:
    """Write a service's assembly and return its stack."""
    app = App(outdir=str(directory), context=context or {})
    stack = Stack(app, "Test")
    SagaService(stack, "Shop", sagas=sagas, dashboard=False, **options)
    app.synth()
    return stack


def warned(stack: Stack) -> list[str]:
    """What the stack is warned of, but for the missing topic."""
    warnings = assertions.Annotations.from_stack(stack).find_warning("*", assertions.Match.any_value())
    return sorted(str(one.entry.data) for one in warnings if "alarm_topic" not in str(one.entry.data))


def stack_of_all(app: App, *, later: bool = True) -> Stack:
    """A service with all that holds something; ``later``: also what is made when it is asked for."""
    stack = Stack(app, "Test")
    service = SagaService(
        stack, "Shop", sagas=[Delivery, Shipment, Loan], isolation="saga", dashboard=False, archive=Archive()
    )
    if later:
        assert service.command_queue().queue_name
        assert service.event_bus().event_bus_name
    return stack


@pytest.fixture(scope="module")
def everything_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an app of such a service."""
    directory = tmp_path_factory.mktemp("all")
    app = App(outdir=str(directory))
    stack_of_all(app)
    app.synth()
    return directory


@pytest.fixture(scope="module")
def less(everything_in: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Stack, Path]:
    """The stack and the output of the same app, where nobody asks any more for what is made when it is asked for."""
    directory = tmp_path_factory.mktemp("less")
    app = App(context=dict(layouts_in(everything_in)), outdir=str(directory))
    stack = stack_of_all(app, later=False)
    app.synth()
    return stack, directory


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly of a service of two sagas."""
    directory = tmp_path_factory.mktemp("deployed")
    synthesize(directory, Trip, Counted)
    return directory


class TestRecord:
    def test_has_what_holds_something(self, deployed: Path) -> None:
        (places,) = layouts_in(deployed).values()
        assert {"sagas table", "audit table", "payloads", "dead-letter queue of trip"} <= places.keys()
        assert {"work queue bulk", "dead-letter queue of work bulk"} <= places.keys()
        assert len(places) == 3 + 2 + 2 + 2
        template = json.loads((deployed / "Test.template.json").read_text())
        ids = {place.split(" ")[0].rpartition("/")[2] for place in places.values()}
        assert {template["Resources"][id]["Type"] for id in ids} == {
            "AWS::SQS::Queue",
            "AWS::DynamoDB::Table",
            "AWS::S3::Bucket",
        }

    def test_stands_beside_what_else_is_there(self, deployed: Path, tmp_path: Path) -> None:
        context = tmp_path / "cdk.context.json"
        context.write_text(json.dumps({"vpc": "known", "sagas:layout:Old/Gone": {}}))
        assert record(deployed, tmp_path) == 9
        assert json.loads(context.read_text()).keys() == {"vpc", KEY}

    def test_that_cannot_be_read(self, deployed: Path, tmp_path: Path) -> None:
        (tmp_path / "cdk.context.json").write_text("{")
        with pytest.raises(LocalStackError, match=r"cdk.context.json cannot be read"):
            record(deployed, tmp_path)

    def test_of_an_app_without_a_service(self, tmp_path: Path) -> None:
        app = App(outdir=str(tmp_path))
        Stack(app, "Empty")
        app.synth()
        with pytest.raises(LocalStackError, match="the app has no SagaService"):
            layouts_in(tmp_path)


class TestSynthesis:
    def recorded(self, deployed: Path) -> dict[str, Any]:
        return dict(layouts_in(deployed))

    def test_is_silent_while_all_stays(self, deployed: Path, tmp_path: Path) -> None:
        class Third(Counted, name="third"):
            """One more saga."""

        assert warned(synthesize(tmp_path, Trip, Counted, Third, context=self.recorded(deployed))) == []

    def test_is_silent_without_a_record(self, tmp_path: Path) -> None:
        assert warned(synthesize(tmp_path, Trip)) == []

    def test_warns_of_queues_that_would_be_replaced(self, deployed: Path, tmp_path: Path) -> None:
        told = warned(synthesize(tmp_path, Trip, Counted, context=self.recorded(deployed), nested_stacks=True))
        assert len(told) == 4
        assert "the deployed queue of trip.book would be replaced or dropped" in "".join(told)

    def test_knows_what_options_and_later_calls_make(self, everything_in: Path, less: tuple[Stack, Path]) -> None:
        (places,) = layouts_in(everything_in).values()
        (fewer,) = layouts_in(less[1]).values()
        assert places.keys() - fewer.keys() == {
            "command queue",
            "dead-letter queue of commands",
            "unpublished events",
        }
        assert {"work queue now", "joins table", "callback secret", "archive", "entries not archived"} <= (
            places.keys()
        )

    def test_compares_what_is_made_after_the_service_when_all_is_made(
        self, everything_in: Path, less: tuple[Stack, Path], tmp_path: Path
    ) -> None:
        recorded = dict(layouts_in(everything_in))
        assert warned(stack_of_all(App(context=recorded, outdir=str(tmp_path / "again")))) == []
        without = warned(less[0])
        assert len(without) == 3
        assert without[0].startswith("the deployed command queue would be replaced or dropped")

    def test_warns_of_queues_that_would_be_dropped(self, deployed: Path, tmp_path: Path) -> None:
        told = warned(synthesize(tmp_path, Trip, context=self.recorded(deployed)))
        assert len(told) == 2
        assert all("counted" in one for one in told)


class TestCommand:
    @pytest.fixture
    def project(self, deployed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A directory whose app is the one of two sagas."""
        monkeypatch.chdir(tmp_path)

        def synthesize(command: str, files: Files, output: str) -> Path:
            return deployed

        monkeypatch.setattr(synthesis, "synthesize", synthesize)
        return tmp_path

    def run(self, *arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(command, ["layout", *arguments])
        return result.exit_code, result.output

    def test_asks_for_a_record_first(self, project: Path) -> None:
        code, said = self.run()
        assert code == 1
        assert "cdk.context.json has no record yet" in said

    def test_finds_nothing_right_after_it(self, project: Path) -> None:
        assert self.run("--write") == (0, "Recorded 9 queues, tables and buckets in cdk.context.json.\n")
        assert self.run() == (0, "No recorded queue, table or bucket would be replaced.\n")

    def test_tells_what_moved(self, project: Path, deployed: Path) -> None:
        self.run("--write")
        context = project / "cdk.context.json"
        context.write_text(context.read_text().replace("ShopTablesAudit", "ShopTablesElsewhere"))
        code, said = self.run()
        assert (code, said) == (1, "would be replaced or deleted: Test/Shop: audit table\n")
        assert compare(deployed, project) == ["Test/Shop: audit table"]
