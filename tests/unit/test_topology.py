"""Finding the parts of a service by the tags in its templates."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.errors import SagaError
from sagas.topology import ApiEndpoint, PartName, Topology, tag


def resource(part: PartName, **names: str) -> dict[str, Any]:
    """A resource as the constructs tag it."""
    key, value = tag(part, **names)
    return {"Type": "AWS::Any::Thing", "Metadata": {key: value}}


STAGE = {"Type": "AWS::ApiGateway::Stage", "Properties": {"RestApiId": {"Ref": "Rest"}, "StageName": "v1"}}
RESOURCES: dict[str, Any] = {
    "Control": resource("sagas_table"),
    "Entries": resource("audit_table"),
    "Queue": resource("queue", saga="pay", step="take,keep"),
    "Letters": resource("dead_letter_queue", saga="pay"),
    "Function": resource("function", saga="pay", step="take,keep"),
    "Watch": resource("supervisor"),
    "Work": resource("work_queue", name="bulk"),
    "Lost": resource("work_dead_letter_queue", name="bulk"),
    "Worker": resource("work_function", name="bulk"),
    "Waker": resource("work_function", name="now"),
    "Rest": resource("api", path="/shop"),
    "Stage": STAGE,
    "Other": {"Type": "AWS::SQS::Queue"},
    "Logged": {
        "Type": "AWS::Lambda::Function",
        "Properties": {"Handler": "sagas.handlers.api.handler", "LoggingConfig": {"LogGroup": {"Ref": "Log"}}},
    },
    "Logged-too": {
        "Type": "AWS::Lambda::Function",
        "Properties": {"Handler": "sagas.handlers.step.handler", "LoggingConfig": {"LogGroup": {"Ref": "Log"}}},
    },
    "Log": {"Type": "AWS::Logs::LogGroup"},
    "Foreign": {
        "Type": "AWS::Lambda::Function",
        "Properties": {"Handler": "shop.handler", "LoggingConfig": {"LogGroup": {"Ref": "Other"}}},
    },
    "Gone": resource("queue", saga="pay", step="old"),
}
PHYSICAL_IDS = {name: name.lower() for name in RESOURCES if name != "Gone"}


def test_every_part_is_found_where_it_is() -> None:
    found = Topology()
    found.add_stack(RESOURCES, PHYSICAL_IDS)
    assert found == Topology(
        tables={"sagas": "control", "audit": "entries"},
        queues={"pay": {"take": "queue", "keep": "queue"}},
        dead_letter_queues={"pay": "letters"},
        functions={"pay": {"take": "function", "keep": "function"}},
        supervisor="watch",
        work_queues={"bulk": "work"},
        work_dead_letter_queues={"bulk": "lost"},
        log_groups=["log"],
        api=ApiEndpoint("rest", "v1", "/shop"),
    )


def test_steps_of_several_stacks_come_together() -> None:
    found = Topology()
    for step in ("take", "keep"):
        found.add_stack({"Queue": resource("queue", saga="pay", step=step)}, {"Queue": step})
    assert found.queues == {"pay": {"take": "take", "keep": "keep"}}


def test_a_stack_of_something_else() -> None:
    found = Topology()
    found.add_stack({"Other": RESOURCES["Other"]}, PHYSICAL_IDS)
    assert found == Topology()


def test_an_api_without_a_stage() -> None:
    with pytest.raises(SagaError, match="no stage"):
        Topology().add_stack({"Rest": RESOURCES["Rest"]}, PHYSICAL_IDS)
