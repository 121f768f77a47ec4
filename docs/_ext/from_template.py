"""Pages of the reference that are written from the template of a service that has everything.

``python docs/_ext/from_template.py`` synthesizes ``docs/examples/all_options.py`` and writes them. Git has them, as a
record for reviews, and a test compares each with what is written here.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sagas.cdk.access.grants import RIGHTS

DOCS = Path(__file__).resolve().parents[1]
NOTE = "*Generated from the template of [a service that has everything](permissions.md#the-service).*\n"
Template = dict[str, Any]

# fmt: off
ROLES = {
    "order": ("The function of a step", "One for each step, or for each saga type with `isolation=\"saga\"`. What the step itself needs, your stack grants to `service.function(...)`."),
    "Supervisor": ("The supervisor", "Finds stalled sagas and what is due each minute; purges, sweeps, verifies."),
    "Bulk": ("The function behind the queue `bulk`", "Recovers, purges and sweeps what the supervisor found."),
    "Now": ("The function behind the queue `now`", "Ends waits. Only where a saga waits or has children."),
    "ApiFunction": ("The API's function", "Answers callers and operators."),
    "CommandFunction": ("The function of the command queue", "Only where the service takes commands or events."),
    "Outbox": ("The function that publishes events", "Only with `events=`."),
    "ArchiveCopy": ("The function that archives the audit trail", "Only with `archive=`."),
}
"""What the logical ids of roles begin with: how the page calls the role, and what it is for. Types count as one."""

_SHORT = ("step", "supervisor", "`bulk`", "`now`", "API", "commands", "events", "archive")
"""The same roles as columns."""
_FEW = 2
"""What more roles than these have stands in one table."""

RESOURCES = {
    "TablesSagas": "the control table", "TablesAudit": "the audit table", "TablesJoins": "the table of joins",
    "TablesPayloads": "the payload bucket", "BulkQueue": "the queue `bulk`", "NowQueue": "the queue `now`",
    "CommandsQueue": "the command queue", "CommandsDeadLetters": "its dead-letter queue",
    "OutboxUnpublished": "the queue of what it gave up", "ArchiveCopyMissed": "the queue of what it gave up",
    "ArchiveBucket": "the archive's bucket", "CallbacksSecret": "the secret of callback URLs",
    "Scans": "the bucket that is swept", "Bus": "the bus",
}
"""How the page calls what the logical ids of resources begin with."""

WHY = {
    ("the service's log group", "logs:CreateLogStream"): "write the log, which has no payloads",
    ("`*`", "xray:PutTraceSegments"): "write traces; AWS offers no narrower resource. Not with `tracing=False`",
    ("the control table", "dynamodb:GetItem"): "claim a saga and commit its changes, item by item: no index, scan or deletion",
    ("the audit table", "dynamodb:GetItem"): "add entries of the journal, read those of earlier steps; change none",
    ("`payloads/*` of the payload bucket", "s3:GetObject"): "keep requests and results that are too large for an item",
    ("the table of joins", "dynamodb:BatchGetItem"): "where sagas have children: write the outcome of one, and count",
    ("the table of joins", "dynamodb:BatchWriteItem"): "purge the outcomes of children with their parent",
    ("index `ended` of the control table", "dynamodb:Query"): "where a type has `auto_disable`: count consecutive failures",
    ("the queues of its saga", "sqs:SendMessage"): "send the next step its message, or its own again later",
    ("all queues of steps", "sqs:SendMessage"): "advance sagas of all types; never to a dead-letter queue",
    ("the queue `now`", "sqs:SendMessage"): "end a wait soon after its time, or notify a parent of its child",
    ("the queue `bulk`", "sqs:SendMessage"): "distribute what is due, and count what still waits",
    ("its own queue", "sqs:ReceiveMessage"): "let Lambda receive, and hide a message while its saga waits",
    ("the dead-letter queues", "sqs:GetQueueAttributes"): "count messages that no saga needs; receive none",
    ("the queue `bulk`", "sqs:ReceiveMessage"): "let Lambda receive",
    ("the queue `now`", "sqs:ReceiveMessage"): "let Lambda receive",
    ("the command queue", "sqs:ReceiveMessage"): "let Lambda receive",
    ("the secret of callback URLs", "secretsmanager:GetSecretValue"): "where a wait has `public=True`: sign the link, or check it",
    ("the audit table", "dynamodb:ConditionCheckItem"): "start no saga under the key of a purged one",
    ("the control table", "dynamodb:DeleteItem"): "purge",
    ("the audit table", "dynamodb:UpdateItem"): "purge: remove payloads from entries, and leave a tombstone",
    ("the audit table", "dynamodb:Scan"): "once a week: find starts that died between their two writes, and delete them",
    ("the payload bucket", "s3:ListBucket"): "purge: find what a saga has there",
    ("`payloads/*` of the payload bucket", "s3:DeleteObject"): "purge; delete the payload of a refused start or signal",
    ("indexes `open`, `by_name`, `incidents`, `ended` of the control table", "dynamodb:Query"): "list sagas by state, type, need and end",
    ("the bucket that is swept", "s3:ListBucket"): "with `allow_sweep`: list the objects under the saga's prefix",
    ("`scans/*` of the bucket that is swept", "s3:GetObject"): "with `allow_sweep`: delete orphans; not with `action=\"report\"`",
    ("`audit/*` of the archive's bucket", "s3:PutObject"): "add to the archive; neither read nor delete",
    ("stream of the audit table", "dynamodb:DescribeStream"): "let Lambda read the stream",
    ("stream of the control table", "dynamodb:DescribeStream"): "let Lambda read the stream",
    ("streams of the audit table", "dynamodb:ListStreams"): "let Lambda find the stream",
    ("streams of the control table", "dynamodb:ListStreams"): "let Lambda find the stream",
    ("the queue of what it gave up", "sqs:SendMessage"): "report what it gave up",
    ("the bus", "events:PutEvents"): "publish",
    ("the command queue and its dead-letter queue", "sqs:SendMessage"): "retry a command later; dead-letter a refused one, with the reason",
}
"""Why a role may do that: by the resource, and the first of the actions."""

WHY_THIS = {
    ("Outbox", "the control table", "dynamodb:GetItem"): "read the outcome of a saga",
    ("Outbox", "the audit table", "dynamodb:GetItem"): "read the entries to publish",
    ("Supervisor", "the bus", "events:PutEvents"): "publish events again, from the journals",
    ("Outbox", "index `by_name` of the control table", "dynamodb:Query"): "publish again: find the sagas of a type",
    ("order", "the secret of callback URLs", "secretsmanager:GetSecretValue"): "where a wait has `public=True`: sign the link",
    ("ApiFunction", "the secret of callback URLs", "secretsmanager:GetSecretValue"): "where a wait has `public=True`: check the link",
    ("ApiFunction", "the table of joins", "dynamodb:BatchGetItem"): "where sagas have children: start them, read the outcome of each",
    ("Supervisor", "the table of joins", "dynamodb:BatchGetItem"): "where sagas have children: start them, read the outcome of each",
    ("Bulk", "the table of joins", "dynamodb:BatchGetItem"): "where sagas have children: start them, read the outcome of each",
    ("Now", "the table of joins", "dynamodb:BatchGetItem"): "where sagas have children: start them, read the outcome of each",
}
"""What a role may do there for reasons of its own."""
# fmt: on


def as_list(value: Any) -> list[Any]:
    """IAM writes a list of one as the one."""
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType] - JSON


def called(logical_id: str) -> str:
    """How the page calls a resource of the template."""
    plain = re.sub("[0-9A-F]{8}$", "", logical_id).removeprefix("Service")
    if plain == "Log":
        return "the service's log group"
    if plain.endswith("DeadLetters") and "queues" in plain:
        return "the dead-letter queues"
    return "its own queue" if "queues" in plain else RESOURCES[plain]


def resource(value: Any) -> str:
    """How the page calls the resource of a permission."""
    match value:
        case "*":
            return "`*`"
        case {"Fn::Join": [_, parts]}:
            whole = "".join(one if isinstance(one, str) else resource(one) for one in parts)
            table, _, index = whole.partition("/index/")
            if index:
                return f"index `{index}` of {table}"
            table, _, stream = whole.partition("/stream/")
            if stream:
                return f"streams of {table}"
            bucket, _, path = whole.partition("/")
            return f"`{path}` of {bucket}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"stream of {called(name)}" if attribute == "StreamArn" else called(name)
        case {"Ref": name}:
            return called(name)
        case {"Fn::Sub": [pattern, _]} if ":sqs:" in pattern:  # named by its saga and step
            return "a queue of a step"
        case _:
            raise ValueError(f"the page has no name for {value}")


def resources(values: list[Any], role: str) -> str:
    """The resources of a statement in a few words."""
    names = list(dict.fromkeys(resource(one) for one in values))
    of_steps = "the queues of its saga" if role == "order" else "all queues of steps"
    names = [of_steps if one == "a queue of a step" else one for one in names]
    indexes = [one.split("`")[1] for one in names if one.startswith("index ")]
    if len(indexes) > 1:
        return f"indexes {', '.join(f'`{one}`' for one in indexes)} of {names[0].partition(' of ')[2]}"
    return " and ".join(names)


def statements(template: Template) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Every permission of a function: its role's kind, the actions, and on what."""
    for name, one in template["Resources"].items():
        policies: list[Template] = one["Properties"].get("Policies", []) if one["Type"] == "AWS::IAM::Role" else []
        owner = name.removeprefix("Service")
        role = next((kind for kind in ROLES if owner.startswith(f"{kind}Role")), "order")
        for statement in (statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]):
            if statement["Effect"] != "Allow":
                raise ValueError(f"the page has no words for {statement}")
            yield role, tuple(as_list(statement["Action"])), resources(as_list(statement["Resource"]), role)


DEPLOYMENTS = """
## Deployments

What CloudFormation's role creates, changes and deletes. [Deploying](../operations/deploying.md#permissions) says how to limit it.

- `dynamodb` tables, with `UpdateContinuousBackups` and `UpdateTimeToLive`; `sqs` queues and their policies; a bucket of `s3` and its policy, and `GetObject` on the bootstrap bucket
- `lambda` functions, versions, aliases, layers, event source mappings and permissions, with `PutFunctionRecursionConfig` and `PutFunctionEventInvokeConfig`
- `iam` roles and inline policies, with `PassRole` to `lambda.amazonaws.com`; with `access_log="role"` also to `apigateway.amazonaws.com`
- a REST API of `apigateway`, and with `access_log="role"` the account's role for logs; `events` rules, `logs` groups with retention, `cloudwatch` alarms, and with `dashboard=True` a dashboard
- nested stacks of `cloudformation` beyond some 40 steps; `codedeploy` with `deployment`; `ssm:GetParameters` of the bootstrap version
- `secretsmanager` with public waits, also `GetRandomPassword`; `wafv2` with `web_acl_arn`; `kms` with `encryption_key` (`DescribeKey`, `CreateGrant`, `PutKeyPolicy`)
- `ec2` with `network` (security groups and subnets); `sns` with an address as `alarm_topic`
- the resources of your sagas"""


def permissions_page(template: Template) -> str:
    """What the role of each function may do, and why."""
    lines = [
        f"# Permissions\n\n{NOTE}",
        "What the service's own functions may do, by role, and what callers can be granted. Each step's function has a role of its own.",
        "A service that lacks a part, such as children, callbacks, a sweep or events, lacks its permissions, too. With `encryption_key`",
        "each role may also use the key, with `network` have Lambda create network interfaces, which the function's code may not. What the rights protect:",
        "[security](../concepts/security-model.md).\n",
    ]
    rights: dict[tuple[str, str, str], list[str]] = {}
    for role, actions, where in dict.fromkeys(statements(template)):
        why = WHY_THIS.get((role, where, actions[0])) or WHY[where, actions[0]]
        rights.setdefault((", ".join(f"`{one}`" for one in actions), where, why), []).append(role)
    shared = {right: set(roles) for right, roles in rights.items() if len(roles) > _FEW}
    lines += [
        f"## What several functions may do\n\nEach column is a function below.\n\n| may | on | to | {' | '.join(_SHORT)} |"
    ]
    lines += [f"|---|---|---|{'---|' * len(_SHORT)}"]
    for (may, where, why), roles in shared.items():
        marks = " | ".join("x" if role in roles else "" for role in ROLES)
        lines.append(f"| {may} | {where} | {why} | {marks} |")
    lines.append("")
    for role, (title, what) in ROLES.items():
        own = [right for right, roles in rights.items() if role in roles and right not in shared]
        lines.append(f"## {title}\n\n{what}\n")
        lines += ["| may | on | to |", "|---|---|---|"] if own else []
        lines += [f"| {may} | {where} | {why} |" for may, where, why in own]
        lines.append("")
    lines += [
        "## Callers and operators\n\nWhat `service.grant_...` gives a principal: `execute-api:Invoke` on these methods and paths of the API.",
        "[Security](../concepts/security-model.md#rights-by-saga-type) says what each right includes.\n",
        "| right | of the types named | without a type |",
        "|---|---|---|",
    ]
    for name, right in RIGHTS.items():
        shown = [", ".join(f"`{one}`" for one in patterns) for patterns in (right.of_type, right.of_all)]
        lines.append(f"| `grant_{name}` | {shown[0]} | {shown[1] or 'each type by its name'} |")
    lines.append(DEPLOYMENTS)
    lines.append("\n## The service\n")
    lines += [
        f"```{{literalinclude}} ../examples/{name}.py\n:language: python\n```\n"
        for name in ("all_sagas", "all_options")
    ]
    return "\n".join(lines)


def alarms_page(template: Template) -> str:
    """Every alarm, with its section of the runbook: those that a service has by default, and those by step."""
    few = alarm_rows(template)
    many = alarm_rows(template["ByStep"])
    head = ["| alarm | fires when | metric | more than | for | runbook |", "|---|---|---|---|---|---|"]
    return "\n".join(
        [
            f"# Alarms\n\n{NOTE}",
            "Each alarm names its section of [the runbook](../operations/runbook.md) in its description, and notifies `alarm_topic`.",
            "SAGA stands for a saga type. NeedsAttention and DeadLetters stay until no saga of the type waits for an operator. An alarm",
            "on such a gauge, or on the length or age of a queue, also notifies when it clears, and so do Failing, Background and",
            "ApiServerErrors. The others count events, and clear while what they counted may still be wrong.\n",
            "A service has these:\n",
            *[*head, *few],
            "\n## By step\n",
            'With `alarms="step"`, and with `deployment`, whose alarms roll back what CodeDeploy moves, a service has the following instead of Problem',
            "and Background. They say where, and notice a crash or an old message sooner; each costs 0.10 USD a month. STEP stands for a step, or for",
            "the steps that share a function. With `deployment` each type also has Rollback, which counts `SagaNeedsAttention` and notifies",
            "nobody: a saga that begins to wait for an operator stops a gradual deployment, and one that waits already does not.\n",
            *[*head, *(row for row in many if row not in few)],
            "",
        ]
    )


def alarm_rows(template: Template) -> list[str]:
    """A row for each kind of alarm of a template."""
    rows: dict[str, None] = {}
    for name, one in template["Resources"].items():
        if one["Type"] != "AWS::CloudWatch::Alarm":
            continue
        alarm = one["Properties"]
        what, _, link = alarm["AlarmDescription"].partition(" What to do: ")
        what = re.sub("(aga) (order|shipment)", r"\1 SAGA", re.sub("(scan|approval|ship|book) of", "STEP of", what))
        anchor = link.partition("#")[2]
        plain = re.sub("[0-9A-F]{8}$", "", name).removeprefix("Service").removeprefix("Alarms")
        plain = re.sub("^(order|shipment)alarms(scan|approval|ship|book)", "SAGA: STEP ", plain)
        plain = re.sub("^(order|shipment)alarms", "SAGA: ", plain)
        stats = [one["MetricStat"] for one in alarm.get("Metrics", ()) if "MetricStat" in one]
        metrics = [one["Metric"] for one in stats] or [alarm]
        named = [
            f"`{one['MetricName']}`" + ("" if one["Namespace"] == "Sagas" else f" of {one['Namespace']}")
            for one in metrics
        ]
        metric = ", ".join(dict.fromkeys(named))
        period = stats[0]["Period"] if stats else alarm["Period"]
        above = "as its policies explain" if plain.endswith("STEP Age") else f"{alarm['Threshold']:,}"
        if alarm["ComparisonOperator"].startswith("LessThan"):
            above = "(see there)" if stats else "(none there)"
        periods, needed = alarm["EvaluationPeriods"], alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
        times = "" if periods == 1 else f"{needed} times " if needed == periods else f"{needed} of {periods} times "
        minutes = f"{times}{period // 60} min"
        link = f"[{anchor}](../operations/runbook.md#{anchor})"
        rows[f"| {plain} | {what} | {metric} | {above} | {minutes} | {link} |"] = None
    return list(rows)


PAGES: dict[str, Callable[[Template], str]] = {
    "reference/alarms.md": alarms_page,
    "reference/permissions.md": permissions_page,
}
"""Each page, and what writes it from the template."""


def synthesize(directory: str) -> Template:
    """Return the template of the service that has everything, and below ``ByStep`` that with alarms by step.

    Args:
        directory: where the CDK writes what it makes.
    """
    sys.path.insert(0, str(DOCS / "examples"))
    import all_options

    all_options.build_app(directory).synth()
    everything, by_step = (
        json.loads((Path(directory) / f"{name}.template.json").read_text()) for name in ("Everything", "ByStep")
    )
    return {**everything, "ByStep": by_step}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        written = synthesize(made)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(written))
