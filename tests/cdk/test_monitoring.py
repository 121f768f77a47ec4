"""What operators see: alarms, each with its section of the runbook, and the dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_sns as sns

from sagas import AutoDisable
from sagas.cdk import Archive, Deployment, FunctionOptions, Network, SagaEvents, SagaService, SagaServiceProps
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import MOST_OF_ONE_STACK, counted
from sagas.cdk.messages.commands import CommandFunction
from sagas.cdk.messages.events import Outbox
from sagas.cdk.options.service_options import service_options
from sagas.cdk.parts.part import resources
from sagas.cdk.service import PARTS
from sagas.errors import DefinitionError
from tests.cdk.rendered import by_id, service
from tests.cdk.rendered import of_type as of_kind
from tests.cdk.saga_classes import Delivery, Loan, Shipment, Trip, saga_of

Template = dict[str, Any]
Find = Callable[[str], list[Template]]
ALARM = "AWS::CloudWatch::Alarm"
RUNBOOK = Path(__file__).resolve().parents[2] / "docs" / "operations" / "runbook.md"


@pytest.fixture(scope="module")
def two() -> Stack:
    """A stack with a service that tells nobody, that nothing limits and that keeps all, and one with a topic, a limit
    and a retention."""
    stack = Stack(App(), "Test")
    limited = FunctionOptions(maximum_concurrency=5)
    SagaService(stack, "Silent", sagas=[Trip])
    topic, month = sns.Topic(stack, "Told"), timedelta(days=30)
    SagaService(stack, "Held", sagas=[Trip], alarm_topic=topic, function_options=limited, retention=month)
    return stack


class TestAlarms:
    def test_are_few_by_default(self, of_type: Find) -> None:
        """Two for each type and four for the service, and those of what only some types have."""
        found = sorted(alarm.get("MetricName", "math") for alarm in of_type(ALARM))
        assert found == sorted(
            [
                *["SagasNeedingAttention", "Failing"] * 5,
                *["ServiceProblem", "math", "5XXError", "LeftoverMessages"],
                *["SweepStopped", "SweepFailed", "BreakerOpened"],
            ]
        )

    def test_background_watches_the_supervisor_and_what_was_given_up(self, of_type: Find) -> None:
        (alarm,) = [one for one in of_type(ALARM) if "Metrics" in one]
        (math,) = [one["Expression"] for one in alarm["Metrics"] if "Expression" in one]
        assert math == "IF(calls - errors < 1 OR MAX([0 * calls, letters0, letters1]) > 0, 0, 1)"
        watched = {one["Id"]: one["MetricStat"] for one in alarm["Metrics"] if "MetricStat" in one}
        assert {id: (one["Metric"]["MetricName"], one["Stat"], one["Period"]) for id, one in watched.items()} == {
            "calls": ("Invocations", "Sum", 300),
            "errors": ("Errors", "Sum", 300),
            "letters0": ("ApproximateNumberOfMessagesVisible", "Maximum", 300),
            "letters1": ("ApproximateNumberOfMessagesVisible", "Maximum", 300),
        }
        letters = [json.dumps(one["Metric"]["Dimensions"]) for id, one in watched.items() if "letters" in id]
        assert "BulkQueueDeadLetters" in letters[0]
        assert "NowQueueDeadLetters" in letters[1]
        assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (0, 2)

    def test_can_be_by_step(self) -> None:
        """Then no alarm counts what another counts, too: an undo that failed is what needs attention."""
        found = sorted((one["Namespace"], one["MetricName"]) for one in of_kind(service(alarms="step"), ALARM))
        assert found == sorted(
            [
                ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
                ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
                *[("Sagas", "SagasNeedingAttention")] * 2,
                ("Sagas", "LeftoverMessages"),
                ("Sagas", "Failing"),
                *[("Sagas", "OldestOverdueSaga")] * 2,
                *[("Sagas", "SagaWithoutCode"), ("Sagas", "NewerMessageFormat")],
                *[("Sagas", "AuditMismatch"), ("Sagas", "InputsUnread"), ("Sagas", "WrongTables")],
                *[("AWS/Lambda", "Invocations"), ("AWS/ApiGateway", "5XXError")],
                *[("AWS/Lambda", "Errors")] * 4,
                *[("AWS/Lambda", "Throttles")] * 3,
            ]
        )

    def test_are_by_step_where_they_roll_back_a_deployment(self, everything: Template) -> None:
        assert {"ApproximateAgeOfOldestMessage", "Errors"} <= {
            one.get("MetricName") for one in of_kind(everything, ALARM)
        }

    def test_of_a_kind_that_there_is_not(self) -> None:
        with pytest.raises(DefinitionError, match="alarms must be one of type, step, not 'all'"):
            service(alarms="all")

    def test_name_a_section_of_the_runbook(self, of_type: Find, plain: Template) -> None:
        headings = re.findall(r"^## (.+)$", RUNBOOK.read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        named = {alarm["AlarmDescription"].partition("docs/operations/runbook.md#")[2] for alarm in of_type(ALARM)}
        assert named
        assert named <= anchors

    def test_watch_the_metrics_that_functions_write(self, of_type: Find) -> None:
        functions = of_type("AWS::Lambda::Function")
        (service,) = {function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for function in functions}
        for alarm in of_type(ALARM):
            if alarm.get("Namespace") == "Sagas":
                assert {"Name": "service", "Value": service} in alarm["Dimensions"]

    def test_are_quiet_while_nothing_happens_but_for_the_supervisors_silence(
        self, of_type: Find, everything: Template
    ) -> None:
        (alarm,) = [alarm for alarm in of_type(ALARM) if alarm["TreatMissingData"] != "notBreaching"]
        assert (alarm["TreatMissingData"], "Metrics" in alarm) == ("breaching", True)
        (silent,) = [alarm for alarm in of_kind(everything, ALARM) if alarm["TreatMissingData"] != "notBreaching"]
        assert (silent["MetricName"], silent["TreatMissingData"]) == ("Invocations", "breaching")
        for one in (alarm, silent):
            assert (one["Threshold"], one["ComparisonOperator"]) == (0, "LessThanOrEqualToThreshold")

    @pytest.mark.parametrize(("minutes", "periods"), [(2, 1), (5, 2)])
    def test_a_supervisor_that_is_called_seldom_is_not_taken_for_silent(self, minutes: int, periods: int) -> None:
        template = service(recover_every=timedelta(minutes=minutes), alarms="step")
        assert silence_in(template) == (300, periods)

    def test_of_throttles_see_all_functions(self, everything: Template) -> None:
        """However many there are: a step's own is none of the two that are watched by name."""
        throttles = [alarm for alarm in of_kind(everything, ALARM) if alarm.get("MetricName") == "Throttles"]
        assert sorted(len(alarm.get("Dimensions", [])) for alarm in throttles) == [0, 1, 1]

    def test_that_tell_nobody_are_warned_of(self, two: Stack) -> None:
        warnings = assertions.Annotations.from_stack(two).find_warning("*", assertions.Match.any_value())
        assert [warning.id for warning in warnings if "alarm_topic" in str(warning.entry.data)] == ["/Test/Silent"]

    def test_tell_an_address(self) -> None:
        template = service(alarm_topic="ops@example.com")
        (topic,) = by_id(template, "AWS::SNS::Topic")
        told = {"Endpoint": "ops@example.com", "Protocol": "email", "TopicArn": {"Ref": topic}}
        assert of_kind(template, "AWS::SNS::Subscription") == [told]
        assert all(alarm["AlarmActions"] == [{"Ref": topic}] for alarm in of_kind(template, ALARM))
        (policy,) = of_kind(template, "AWS::SNS::TopicPolicy")
        allowed = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
        assert [one["Principal"] for one in allowed] == [{"Service": "cloudwatch.amazonaws.com"}]

    @pytest.mark.parametrize("alarms", ["type", "step"])
    def test_tell_when_they_clear_unless_they_count_events(self, alarms: Any) -> None:
        """A count of events clears while what was counted is still wrong."""
        template = service(Loan, saga_of(1, 2, auto_disable=AutoDisable()), alarm_topic="a@b.de", alarms=alarms)
        clearing = ("Failing", "Background", "ApiServerErrors")
        for id, alarm in by_id(template, ALARM).items():
            gauge = alarm.get("Statistic") == "Maximum"
            told = gauge or any(re.search(rf"{name}[0-9A-F]{{8}}$", id) for name in clearing)
            assert alarm.get("OKActions") == (alarm["AlarmActions"] if told else None), id
        gauges = [one["MetricName"] for one in of_kind(template, ALARM) if one.get("Statistic") == "Maximum"]
        assert gauges.count("SagasNeedingAttention") == (4 if alarms == "step" else 2)

    @pytest.mark.parametrize(("minutes", "period"), [(1, 300), (2, 300), (3, 360), (5, 600)])
    def test_see_a_gauge_in_each_period(self, minutes: int, period: int) -> None:
        """A run of the supervisor that is some seconds late leaves no period without a number."""
        alarms = of_kind(service(recover_every=timedelta(minutes=minutes)), ALARM)
        (needing,) = [one for one in alarms if one.get("MetricName") == "SagasNeedingAttention"]
        assert (needing["Period"], needing["EvaluationPeriods"], needing["Statistic"]) == (period, 1, "Maximum")
        assert needing["TreatMissingData"] == "notBreaching"

    def test_tell_nobody_by_a_word(self) -> None:
        with pytest.raises(DefinitionError, match="alarm_topic must be a topic or an e-mail address, not 'ops'"):
            service(alarm_topic="ops")

    def test_a_service_that_nothing_limits_is_told_so(self, two: Stack) -> None:
        told = assertions.Annotations.from_stack(two).find_info("*", assertions.Match.any_value())
        assert [one.id for one in told if "nothing limits" in str(one.entry.data)] == ["/Test/Silent"]

    def test_a_service_that_keeps_sagas_for_good_is_told_what_that_costs(self, two: Stack) -> None:
        found = assertions.Annotations.from_stack(two).find_info("*", assertions.Match.any_value())
        (note,) = [one for one in found if "for good" in str(one.entry.data)]
        assert note.id == "/Test/Silent"
        assert "about 2 USD" in str(note.entry.data)

    def test_messages_may_be_as_old_as_their_step_allows(self, everything: Template) -> None:
        alarms = of_kind(everything, ALARM)
        ages = [alarm for alarm in alarms if alarm.get("MetricName") == "ApproximateAgeOfOldestMessage"]
        (capture,) = [alarm for alarm in ages if "capture" in alarm["AlarmDescription"]]
        assert capture["Threshold"] > 900 + 300
        assert all(alarm["Threshold"] > 900 for alarm in ages)

    def test_of_many_steps_together_fit_into_what_cloudwatch_takes(self) -> None:
        """1,024 characters; where to look it up is not what is left out."""
        alarms = of_kind(service(saga_of(1, 120), isolation="saga", alarms="step"), ALARM)
        told = [one["AlarmDescription"] for one in alarms]
        assert max(map(len, told)) == 1_024
        page = rf"What to do: lambda-sagas {re.escape(version('lambda-sagas'))}, docs/operations/runbook.md#[a-z-]+$"
        assert all(re.search(page, one) for one in told)

    def test_of_a_type_that_may_be_disabled(self, everything: Template) -> None:
        alarms = [one for one in of_kind(everything, ALARM) if one.get("MetricName") == "SagaTypePaused"]
        (disabled,) = [one for one in alarms if {"Name": "saga", "Value": "counted"} in one["Dimensions"]]
        assert disabled["AlarmDescription"].endswith("#type-paused")


class TestDashboard:
    def test_shows_every_saga(self, everything: Template) -> None:
        (dashboard,) = of_kind(everything, "AWS::CloudWatch::Dashboard")
        body = json.dumps(dashboard["DashboardBody"])
        for title in ("trip: ends", "checkout: backlog", "Supervisor", "Starts and refused calls"):
            assert title in body
        for metric in (
            "SagaCompleted",
            "StepRetried",
            "Duration",
            "ApproximateNumberOfMessagesVisible",
            "ConsumedWriteCapacityUnits",
        ):
            assert metric in body

    def test_is_made_if_asked_for(self, plain: Template) -> None:
        assert not of_kind(plain, "AWS::CloudWatch::Dashboard")


class TestSize:
    @pytest.mark.parametrize(
        ("sagas", "steps", "gradual"),
        [
            (1, 8, False),
            (2, 3, True),
            (4, 1, False),
            pytest.param(1, 25, False, marks=pytest.mark.slow),
            pytest.param(4, 5, True, marks=pytest.mark.slow),
            pytest.param(12, 1, False, marks=pytest.mark.slow),
        ],
    )
    def test_what_is_counted_is_what_there_is(self, sagas: int, steps: int, gradual: bool) -> None:
        """And such a service is all in one stack."""
        stack = Stack(App(), "Test")
        deployment = Deployment.all_at_once() if gradual else None
        kinds = [saga_of(number, steps) for number in range(sagas)]
        SagaService(stack, "Shop", sagas=kinds, deployment=deployment)
        resources = assertions.Template.from_stack(stack).to_json()["Resources"]
        count, _ = counts(sagas=kinds, deployment=deployment)
        assert len(resources) == count <= MOST_OF_ONE_STACK
        assert not [one for one in resources.values() if one["Type"] == "AWS::CloudFormation::Stack"]

    @pytest.mark.parametrize("gradual", [False, True])
    def test_so_it_is_with_all_there_can_be(self, gradual: bool) -> None:
        """What a service has by its options, by its sagas, and by what is asked for once it is there."""
        stack = Stack(App(), "Test")
        options: SagaServiceProps = {
            "sagas": [Delivery, Shipment, Loan, saga_of(1, 2, auto_disable=AutoDisable())],
            "deployment": Deployment.all_at_once() if gradual else None,
            "archive": Archive(),
            "events": SagaEvents(),
            "access_log": "role",
            "web_acl_arn": "arn:aws:wafv2:us-east-1:123456789012:regional/webacl/one/1",
            "network": Network(ec2.Vpc(stack, "Network", max_azs=1)),
            "dashboard": True,
        }
        service = SagaService(stack, "Shop", **options)
        assert service.command_queue().queue_name
        resources = assertions.Template.from_stack(stack).to_json()["Resources"]
        own = [name for name in resources if name.startswith("Shop")]
        count = counts(**options)[0] + CommandFunction.reserve(catalogue(**options))
        assert len(own) == count

    def test_queues_alone_leave_room_for_what_may_be_made_later(self) -> None:
        """A stack that is full of queues cannot be left without losing what is in them."""
        sagas = [saga_of(0, 5)]
        together, alone = counts(sagas=sagas)
        with_events = counts(sagas=sagas, events=SagaEvents())
        assert with_events == (together + Outbox.reserve(catalogue(sagas=sagas)), alone)

    def test_more_do_with_one_function_a_saga(self) -> None:
        template = service(*(saga_of(number, 25) for number in range(2)), isolation="saga")
        assert len(of_kind(template, "AWS::SQS::Queue")) == 6


def catalogue(**options: Unpack[SagaServiceProps]) -> Catalogue:
    return Catalogue("Shop", service_options("Shop", options))


def counts(**options: Unpack[SagaServiceProps]) -> tuple[int, int]:
    """Resources of a service: all of them, and those that stay in its stack when functions are in nested ones."""
    of = catalogue(**options)
    return counted(of, resources(PARTS, of))


def silence_in(template: Template) -> tuple[int, int]:
    """Period and number of periods of the alarm on the supervisor's silence."""
    (alarm,) = (one for one in of_kind(template, ALARM) if one["TreatMissingData"] == "breaching")
    return alarm["Period"], alarm["EvaluationPeriods"]
