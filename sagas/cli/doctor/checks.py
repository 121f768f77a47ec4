"""The checks of ``sagas doctor``. Each check declares which facts it reads, and how it judges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from sagas.aws import code_of
from sagas.cli.doctor.site import NotChecked, Resource, Resources, Site, Tables
from sagas.cli.target import SIGN_IN, what_to_do
from sagas.errors import SagaError, full_text, text_of

State = Literal["ok", "warn", "fail", "unchecked"]

_SKEW = 60.0, 300.0
"""Seconds by which a clock may be wrong, before the check reports it, and before AWS refuses its signatures."""
_UNRESERVED = 100
"""Executions that Lambda keeps unreserved in each account."""
_FULL = 0.8
"""A check reports a quota once more than this part of it is used."""
_HOLDS = {
    "AWS::SQS::Queue": "QueueName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::KMS::Key": "",
    "AWS::SecretsManager::Secret": "Name",
}
"""Types of resources with messages, sagas, payloads or keys. CloudFormation replaces them if this property changes."""
_QUOTAS = "ask for more in the console of Service Quotas"
_DEPLOY = "deploy with `cdk deploy`"


@dataclass(frozen=True)
class Finding:
    """A result of a check, and what to do about it; ``unchecked`` if there was nothing to check."""

    state: State
    text: str
    todo: str = ""


Findings = Iterator[Finding]


@dataclass(frozen=True)
class Check:
    """One check: it reads the facts to judge from a site, and judges them without requests."""

    name: str
    reads: Callable[[Site], Any]
    judges: Callable[[Any], Findings]

    def findings(self, site: Site) -> list[Finding]:
        """Return the findings, or one that says why there are none."""
        try:
            return [*self.judges(self.reads(site))]
        except NotChecked as error:
            return [Finding("unchecked", f"not checked here: {error}")]
        except (SagaError, BotoCoreError, ClientError) as error:
            text, todo = explained(error, site.caller, site.where)
            return [Finding("warn", f"not checked: {text}", todo)]


def explained(error: Exception, caller: str, where: str) -> tuple[str, str]:
    """Return why a request failed, and what to do about it."""
    text = text_of(error)
    todo = what_to_do(error)
    match error:
        case SagaError():
            return full_text(error), todo
        case ClientError() if todo.startswith("grant "):
            return f"{caller} has no permission for {todo.split()[1]} in {where}", todo
        case ClientError() if todo == SIGN_IN:
            return f"{where} refused the credentials ({code_of(error)})", todo
        case HTTPClientError() | ConnectionError() | ClientError():
            return f"{text} ({where})", todo
        case _:  # credentials are missing
            return text, todo


def credentials(facts: tuple[str, str]) -> Findings:
    caller, where = facts
    yield Finding("ok", f"{caller} in {where}")


def clock(ahead: float) -> Findings:
    """Whether this machine's clock is right. AWS refuses signatures with a wrong time."""
    notable, refused = _SKEW
    state: State = "ok" if abs(ahead) < notable else "warn" if abs(ahead) < refused else "fail"
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} AWS"
    yield Finding(state, text, "" if state == "ok" else "set this machine's clock; AWS refuses five minutes or more")


def app(error: str) -> Findings:
    if error:
        yield Finding("fail", error, "fix the app, or name another one with --app")
    else:
        yield Finding("ok", "the app can be synthesized")


def imports(refused: Sequence[str]) -> Findings:
    """Whether the functions have all modules that their code imports."""
    for text in refused:
        yield Finding("fail", text, "then synthesize and deploy again")
    if not refused:
        yield Finding("ok", "functions have all modules that their code imports")


def bootstrap(facts: tuple[int, int, str]) -> Findings:
    """Whether the CDK's bootstrap stack is there, and is recent enough."""
    version, needed, place = facts
    todo = f"run `cdk bootstrap {place}`"
    if not version:
        yield Finding("fail", "the CDK has not been bootstrapped in this account and region", todo)
    elif version < needed:
        yield Finding("fail", f"version {version}, but the app needs {needed}", todo)
    else:
        yield Finding("ok", f"version {version}")


def concurrency(facts: tuple[int, int, int]) -> Findings:
    """Whether the account has enough executions for the app to reserve."""
    limit, unreserved, more = facts
    if more > unreserved - _UNRESERVED and more > 0:
        left = max(0, unreserved - _UNRESERVED)
        text = f"the app reserves {more:,} more executions, but the account has only {left:,} left"
        yield Finding("fail", text, f"{_QUOTAS} (Lambda, L-B99A9384), or lower reserved_concurrency")
    elif limit < _UNRESERVED:
        text = f"{limit:,} concurrent executions for the whole account, a new account's limit: bursts are throttled"
        yield Finding("warn", text, f"{_QUOTAS} (Lambda, L-B99A9384)")
    else:
        yield Finding("ok", f"{limit:,} concurrent executions, {unreserved:,} of them unreserved")


def in_flight(facts: tuple[int, Mapping[str, int]]) -> Findings:
    limit, queues = facts
    full = {name: count for name, count in queues.items() if count > _FULL * limit}
    for name, count in full.items():
        todo = "lower maximum_concurrency, or split the step; at the limit, SQS delivers no further message"
        yield Finding("warn", f"{name}: {count:,} of {limit:,} messages are in flight", todo)
    if not full:
        yield Finding(
            "ok", f"at most {max(queues.values(), default=0):,} of {limit:,} messages of a queue are in flight"
        )


def stack(facts: tuple[str, str, str]) -> Findings:
    name, status, where = facts
    if not status:
        text = f"{name} is not deployed in {where}"
        yield Finding("warn", text, f"{_DEPLOY}, or name the stack's region with --region")
    elif status == "UPDATE_ROLLBACK_COMPLETE":
        yield Finding("warn", f"{status}: the last deployment failed", "see the stack's events, and deploy again")
    elif "_IN_PROGRESS" in status:
        yield Finding("warn", f"{status}: a deployment is under way", "wait, and run `sagas doctor` again")
    elif "FAILED" in status or "ROLLBACK" in status:
        yield Finding("fail", status, "see the stack's events, repair it in CloudFormation, and deploy again")
    else:
        yield Finding("ok", status)


def replaced(facts: tuple[Resources, Resources]) -> Findings:
    """Whether a deployment would replace or delete resources with messages, sagas, payloads or keys, or be refused
    because it changes several indexes of a table."""
    lost = [*_lost(*facts)]
    for name in lost:
        yield Finding("fail", f"the next deployment would replace or delete {name}, with its content", _KEEP)
    refused = [*_several_indexes(*facts)]
    yield from refused
    if not lost and not refused:
        yield Finding("ok", "the next deployment keeps every queue, table, bucket and key")


_KEEP = "see docs/operations/deploying.md#what-must-not-be-replaced"


def _lost(deployed: Resources, template: Resources) -> Iterator[str]:
    for id, one in deployed.items():
        if one.type in _HOLDS:
            named = _HOLDS[one.type]
            now = template.get(id, Resource("", {}))
            if now.type != one.type or now.properties.get(named) != one.properties.get(named):
                yield one.name or id


def _several_indexes(deployed: Resources, template: Resources) -> Findings:
    """Find tables with more than one index to create or delete, which CloudFormation refuses in one update."""
    for id, after in _indexes(template).items():
        before = _indexes(deployed).get(id, after)
        changed = sorted({name for name in before | after if before.get(name) != after.get(name)})
        if len(changed) > 1:
            text = f"the table {deployed[id].name or id} differs in its indexes {', '.join(changed)}"
            todo = "a deployment changes one index of a table: see docs/operations/upgrades.md for the two updates"
            yield Finding("fail", text, todo)


def _indexes(resources: Resources) -> dict[str, dict[str, Any]]:
    """Return the indexes of each table by name."""
    return {
        id: {index["IndexName"]: index for index in one.properties.get("GlobalSecondaryIndexes", ())}
        for id, one in resources.items()
        if one.type == "AWS::DynamoDB::Table"
    }


def functions(facts: Mapping[str, str]) -> Findings:
    broken = {name: problem for name, problem in facts.items() if problem}
    for name, problem in broken.items():
        yield Finding("fail", f"{name}: {problem}", "fix the code, or what was changed by hand, and deploy again")
    if not broken:
        yield Finding("ok", f"{len(facts)} load their code")


def tables(facts: Sequence[Tables]) -> Findings:
    """Whether the tables belong to the services that name them."""
    wrong = [one for one in facts if one.owner not in ("", one.service_id)]
    for one in wrong:
        text = f"{one.table} belongs to service {one.owner!r}, not to this one, {one.service_id!r}, so nothing runs"
        yield Finding("fail", text, f"correct tables=, or take the tables over by service_id={one.owner!r}")
    if not wrong:
        yield Finding("ok", ", ".join(f"{one.table} of service {one.service_id!r}" for one in facts))


def service_names(facts: Mapping[str, Sequence[str]]) -> Findings:
    """Whether another service of the account and region has the same name."""
    for name, functions in facts.items():
        if functions:
            text = f"another service of this account is called {name!r}, too, with the function {functions[0]}"
            todo = "set service_name= of one: services of one name share metrics, alarms and the source of events"
            yield Finding("warn", text, todo)
    if not any(facts.values()):
        yield Finding("ok", f"no other service of this account and region is called {' or '.join(map(repr, facts))}")


def api(facts: tuple[int, str]) -> Findings:
    types, error = facts
    if "(401)" in error or "(403)" in error:
        todo = "grant execute-api:Invoke to this caller, or ask the API's authorizer"
        yield Finding("warn", f"not checked: {error}", todo)
    elif error:
        yield Finding("fail", error, "look at the log of the API's function")
    else:
        yield Finding("ok", f"it has {types} saga type{'' if types == 1 else 's'}")


def alarms(facts: tuple[int, Sequence[str], Mapping[str, int]]) -> Findings:
    """Whether an alarm is firing, and whether anybody is notified."""
    count, on, topics = facts
    for name in on:
        yield Finding("warn", f"{name} is firing", "its description names the section of the runbook")
    if not topics:
        yield Finding(
            "warn", f"nobody is notified of {count} alarms", "deploy with -c alarm_email=ADDRESS, or set alarm_topic"
        )
    for topic, confirmed in topics.items():
        if not confirmed:
            yield Finding(
                "warn", f"nobody has confirmed a subscription of {topic}", "follow the link in the e-mail of SNS"
            )
    if topics and not on and all(topics.values()):
        yield Finding("ok", f"none of {count} is firing, and somebody is notified")


CHECKS = (
    Check("credentials", lambda site: (site.caller, site.where), credentials),
    Check("clock", Site.clock, clock),
    Check("app", lambda site: site.synthesis, app),
    Check("imports", Site.imports, imports),
    Check("bootstrap", Site.bootstrap, bootstrap),
    Check("concurrency", Site.concurrency, concurrency),
    Check("stack", lambda site: (site.target.stack or "the local stack", site.status, site.where), stack),
    Check("replacements", lambda site: (site.deployed, site.template), replaced),
    Check("in flight", Site.in_flight, in_flight),
    Check("functions", Site.functions, functions),
    Check("tables", Site.tables, tables),
    Check("service name", Site.service_names, service_names),
    Check("API", Site.api, api),
    Check("alarms", Site.alarms, alarms),
)
"""The checks, in the order of a first deployment: each may fail because an earlier one has failed."""
