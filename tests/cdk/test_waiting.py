"""Services whose sagas wait: the queue ``now``, its function, and steps that have no queue."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam

from functions.checkout import Checkout
from sagas import AutoDisable, Context, Saga, sleep, step, wait_for
from sagas.cdk import FunctionOptions, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, rights, template_of
from tests.cdk.saga_classes import Trip
from tests.cdk.test_monitoring import counts
from tests.support.sagas import Order


class Loan(Saga[Order], name="loan"):
    """Asks, waits without asking, and sleeps."""

    @wait_for(str, timeout=timedelta(days=3))
    def approval(self, request: Order, ctx: Context) -> None: ...

    documents = wait_for(str, timeout=timedelta(days=7))
    cooling_off = sleep(timedelta(days=14))
    refunded = wait_for(int, timeout=timedelta(days=1))

    @refunded.compensate
    def refund(self, refunded: int, ctx: Context) -> None: ...

    @step
    def pay(self, documents: str, ctx: Context) -> str:
        return documents


def synthesized(*sagas: type[Any], **options: Any) -> tuple[SagaService, Template]:
    stack = Stack(App(), "Waiting")
    return SagaService(stack, "Sagas", sagas=sagas, **options), template_of(stack)


@pytest.fixture(scope="module")
def waiting() -> Template:
    return synthesized(Loan, Checkout, auto_disable=AutoDisable(threshold=5))[1]


@pytest.fixture(scope="module")
def without() -> tuple[SagaService, Template]:
    """A service whose saga does not wait, and its template."""
    return synthesized(Trip)


def part(template: Template, **tag: str) -> Template:
    (found,) = (
        one for one in template["Resources"].values() if tag.items() <= one.get("Metadata", {}).get("sagas", {}).items()
    )
    return found["Properties"]


def granted(template: Template, function: Template) -> set[tuple[str, str]]:
    return rights(template)[function["Role"]["Fn::GetAtt"][0]]


def routes(function: Template) -> str:
    return json.dumps(function["Environment"]["Variables"]["SAGAS_QUEUES"]).replace("\\", "")


def test_a_wait_has_a_queue_and_a_function_only_where_it_has_code(waiting: Template) -> None:
    tags = [one.get("Metadata", {}).get("sagas", {}) for one in waiting["Resources"].values()]
    for kind in ("queue", "function"):
        mine = [tag["step"] for tag in tags if tag.get("part") == kind and tag.get("saga") == "loan"]
        assert sorted(mine) == ["approval", "pay", "refunded"]


class Napping(Saga[Order], name="napping"):
    """Sleeps, and is woken when it is undone."""

    nap = sleep(timedelta(days=14))

    @nap.compensate(timeout=7)
    def wake(self, ctx: Context) -> None: ...

    @step
    def pay(self) -> str:
        return "paid"


def test_a_sleep_that_is_undone_has_a_queue_and_a_function() -> None:
    _, template = synthesized(Napping, functions={Napping.nap: FunctionOptions(memory_size=512)})
    assert part(template, part="queue", saga="napping", step="nap")["VisibilityTimeout"] > 7
    assert part(template, part="function", saga="napping", step="nap")["MemorySize"] == 512


def test_steps_that_share_a_function_wait_in_it_too() -> None:
    _, template = synthesized(Loan, isolation="saga")
    assert part(template, part="queue", saga="loan")["VisibilityTimeout"] > 0
    assert part(template, part="work_queue", name="now")


def test_options_of_a_wait_without_code_are_refused() -> None:
    with pytest.raises(DefinitionError, match="documents only waits, so it has no queue and no function"):
        synthesized(Loan, functions={Loan.documents: FunctionOptions()})


def test_the_queue_now_and_its_function(waiting: Template) -> None:
    queue, letters = (
        part(waiting, part="work_queue", name="now"),
        part(waiting, part="work_dead_letter_queue", name="now"),
    )
    function = part(waiting, part="work_function", name="now")
    assert (function["Handler"], function["Timeout"]) == ("sagas.handlers.now.handler", 30)
    assert queue["VisibilityTimeout"] == 32
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 10
    assert letters["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    assert function["RecursiveLoop"] == "Allow"
    mappings = [
        one["Properties"]
        for one in waiting["Resources"].values()
        if one["Type"] == "AWS::Lambda::EventSourceMapping" and "NowQueue" in json.dumps(one)
    ]
    (source,) = mappings
    assert (source["BatchSize"], source["ScalingConfig"]) == (10, {"MaximumConcurrency": 20})
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_it_works_on_the_sagas_it_is_told_of_and_lists_and_purges_none(waiting: Template) -> None:
    may = granted(waiting, part(waiting, part="work_function", name="now"))
    actions = {action for action, _ in may}
    assert not {"dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "s3:ListBucket", "s3:DeleteObject"} & actions
    # A type that disables itself is listed to count its failures in a row.
    assert not [resource for action, resource in may if action == "dynamodb:Query" and "index/open" in resource]
    sending = [resource for action, resource in may if action == "sqs:SendMessage"]
    assert [resource for resource in sending if "NowQueue" in resource]
    assert [resource for resource in sending if "loan-pay" in resource]
    assert not [resource for resource in sending if "BulkQueue" in resource or "dead-letters" in resource]


def test_who_sends_to_it(waiting: Template) -> None:
    knowing = {
        "work_function now": part(waiting, part="work_function", name="now"),
        "work_function bulk": part(waiting, part="work_function", name="bulk"),
        "pay": part(waiting, part="function", saga="loan", step="pay"),
    }
    for function in knowing.values():
        assert '"now":"' in routes(function)
        assert [one for one in granted(waiting, function) if one[0] == "sqs:SendMessage" and "NowQueue" in one[1]]
    other = part(waiting, part="function", saga="checkout", step="reserve")
    assert '"now":"' not in routes(other)
    assert not [one for one in granted(waiting, other) if "NowQueue" in one[1]]
    api = next(
        one["Properties"]
        for one in waiting["Resources"].values()
        if one["Type"] == "AWS::Lambda::Function" and one["Properties"]["Handler"] == "sagas.handlers.api.handler"
    )
    assert '"now":"' in routes(api)
    assert [one for one in granted(waiting, api) if one[0] == "sqs:SendMessage" and "NowQueue" in one[1]]


def test_alarms_of_its_own_by_step() -> None:
    told = [
        one["Properties"]["AlarmDescription"]
        for name, one in synthesized(Loan, alarms="step")[1]["Resources"].items()
        if one["Type"] == "AWS::CloudWatch::Alarm" and "AlarmsNow" in name
    ]
    assert len(told) == 2
    assert any("runbook.md#now-dead-letters" in text for text in told)


def test_no_saga_waits_no_queue(without: tuple[SagaService, Template]) -> None:
    service, template = without
    assert service.now is None
    assert "NowQueue" not in json.dumps(template)


def test_it_is_counted(waiting: Template, without: tuple[SagaService, Template]) -> None:
    assert len(waiting["Resources"]) == counts(sagas=[Loan, Checkout], auto_disable=AutoDisable(threshold=5))[0]
    _, alone = synthesized(Trip, Loan)
    own = len(alone["Resources"]) - len(without[1]["Resources"])
    more = counts(sagas=[Trip, Loan])[0] - counts(sagas=[Trip])[0]
    assert own == more


def test_in_nested_stacks_too() -> None:
    service, template = synthesized(Loan, nested_stacks=True)
    assert service.now is not None
    assert part(template, part="work_queue", name="now")


def test_its_options(everything: Template) -> None:
    assert part(everything, part="work_function", name="now")["MemorySize"] == 1024
    with pytest.raises(DefinitionError, match="functions: now does not support batch_size"):
        synthesized(Loan, functions={"now": FunctionOptions(batch_size=2)})
    with pytest.raises(DefinitionError, match="functions: now: timeout must be 15 to 900, not 8"):
        synthesized(Loan, functions={"now": FunctionOptions(timeout=8)})


class Reminder(Saga[Order], name="reminder", auto_disable=AutoDisable(threshold=5)):
    """Only waits."""

    documents = wait_for(str, timeout=timedelta(days=7), name="papers")
    rest = sleep(timedelta(days=1))


def _of(template: Template, saga: str) -> list[str]:
    """What a template has of a saga type's own: its tagged parts, and its alarms."""
    return [
        name
        for name, one in template["Resources"].items()
        if one.get("Metadata", {}).get("sagas", {}).get("saga") == saga
        or (one["Type"] == "AWS::CloudWatch::Alarm" and saga in json.dumps(one["Properties"].get("Dimensions")))
        or saga in name.lower()
    ]


@pytest.mark.parametrize("options", [{}, {"isolation": "saga"}, {"nested_stacks": True}])
def test_a_type_that_only_waits_has_nothing_of_its_own(options: dict[str, Any]) -> None:
    service, template = synthesized(Reminder, Trip, **options)
    assert _of(template, "reminder") == []
    assert _of(template, "trip") != []
    with pytest.raises(DefinitionError, match="reminder only waits, so it has no dead-letter queue"):
        service.dead_letter_queue(Reminder)
    with pytest.raises(DefinitionError, match="papers only waits, so it has no queue and no function"):
        service.queue(Reminder.documents)


def test_a_service_of_types_that_only_wait() -> None:
    stack = Stack(App(), "Waiting")
    service = SagaService(stack, "Sagas", sagas=[Reminder])
    service.grant_operate(iam.User(stack, "Operator"))
    template = template_of(stack)
    tags = [one.get("Metadata", {}).get("sagas", {}).get("part") for one in template["Resources"].values()]
    assert not {"queue", "function", "dead_letter_queue"} & {*tags}
    known = routes(part(template, part="work_function", name="now"))
    assert '"base":"' in known
    assert '"now":"' in known


class Renamed(Saga[Order], name="renamed"):
    """Its methods have other names than its steps."""

    consent = wait_for(str, timeout=timedelta(days=1), name="approval")

    @step(name="book")
    def reserve(self, request: Order) -> str:
        return request.item

    @step(name="pay")
    def charge(self, reserve: str, consent: str) -> str:
        return consent


def test_members_stand_for_the_steps_whose_stored_names_they_have() -> None:
    stack = Stack(App(), "Waiting")
    options = {Renamed.reserve: FunctionOptions(memory_size=512)}
    service = SagaService(stack, "Sagas", sagas=[Renamed], functions=options)
    rule = events.Rule(stack, "Approved", event_pattern=events.EventPattern(source=["bank"]))
    service.signal_on(rule, Renamed.consent)
    template = template_of(stack)
    assert part(template, part="function", saga="renamed", step="book")["MemorySize"] == 512
    assert part(template, part="queue", saga="renamed", step="pay")
    assert service.function(Renamed.reserve).node.path.endswith("renamed/book/Function")
    (target,) = (one["Properties"]["Targets"][0] for name, one in template["Resources"].items() if "Approved" in name)
    assert '"step": "approval"' in target["InputTransformer"]["InputTemplate"]


def test_steps_that_share_a_function_are_named_by_their_members() -> None:
    both = (Renamed.reserve, Renamed.charge)
    _, template = synthesized(Renamed, functions={both: FunctionOptions()})
    assert part(template, part="function", saga="renamed", step="book,pay")
