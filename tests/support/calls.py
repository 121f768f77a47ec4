"""What the functions ask of AWS while the tests of the engine and the handlers run, as IAM sees it.

``tests/support/calls.json`` has every kind of call by the function that made it. ``tests/cdk/test_rights.py`` evaluates
the policies of the template against these, so a right that is missing is found without the path being run on AWS. A
test that makes a call of another kind fails, and ``SAGAS_TESTS_CALLS=record`` adds it::

    rm tests/support/calls.json; SAGAS_TESTS_CALLS=record pytest -m "not proof" tests/engine tests/handlers
"""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

from botocore import handlers

from sagas.authoring.definition.definition import definition_of
from sagas.aws import STEPS
from sagas.handlers import step as step_handler
from tests.support import aws

RECORD = Path(__file__).with_name("calls.json")
_RECORDING = os.environ.get("SAGAS_TESTS_CALLS") == "record"
_OF_TESTS = 60
"""Botocore's own timeout, which no client of the library has."""
_OF_AUTHORS: float = cast("Any", STEPS).read_timeout
"""That of what a step's code asks by ``ctx.client``. Such rights are the author's to grant."""
_HANDLERS = str(Path(step_handler.__file__).parent)
_TESTS = str(Path(__file__).parents[1])
_ENTRIES = {
    ("starter.py", "start"): ("api", "commands"),
    ("signals.py", "send"): ("api", "commands"),
    ("operations.py", "cancel"): ("api", "commands"),
    ("operations.py", "retry"): ("api",),
    ("operations.py", "compensate"): ("api",),
    ("operations.py", "resolve"): ("api",),
    ("purge.py", "purge"): ("api",),
    ("purge.py", "run"): ("supervisor",),
    ("purge.py", "purge_due"): ("bulk",),
    ("leftovers.py", "run"): ("supervisor",),
    ("finding.py", "run"): ("supervisor",),
    ("recovery.py", "run"): ("supervisor",),
    ("recovery.py", "recover_due"): ("bulk", "now"),
    ("sweep.py", "run"): ("supervisor", "bulk"),
    ("worker.py", "handle"): ("step",),
}
"""The functions whose handlers call a method of the engine, which tests call themselves."""
_ENGINE = str(Path(_HANDLERS).with_name("engine"))
Running: TypeAlias = tuple[tuple[str, ...], str, str]
"""Names of functions, a saga type, a queue's name."""
_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_BATCHED = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}
_OF_OBJECTS = {
    "HeadObject": ("GetObject",),
    "DeleteObjects": ("DeleteObject",),
    "CreateMultipartUpload": ("PutObject",),
    "UploadPart": ("PutObject",),
    "CompleteMultipartUpload": ("PutObject",),
}
"""The actions of S3 that are not called as the operation is."""


@dataclass(frozen=True, order=True)
class Call:
    """A call of a function.

    Args:
        function: its handler's module.
        traits: what the right depends on, as :func:`traits_of` has it; of a sweep, what it does with orphans.
        action: of IAM.
        resource: what it is about, by its part in the service.
        context: IAM's condition keys and their values.
    """

    function: str
    traits: tuple[str, ...]
    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()

    def among(self, calls: Set[Call]) -> bool:
        """Whether it is one of these, or is made by saga types with fewer traits, too."""
        fewer = (some for number in range(len(self.traits) + 1) for some in combinations(self.traits, number))
        return any(replace(self, traits=traits) in calls for traits in fewer)


@cache
def recorded() -> frozenset[Call]:
    """Return the kinds of calls that are known."""
    return frozenset(_read())


def _read() -> Iterator[Call]:
    found: dict[str, list[Any]] = json.loads(RECORD.read_text() or "{}") if RECORD.exists() else {}
    for function, calls in found.items():
        for traits, action, resource, context in calls:
            yield Call(function, tuple(traits), action, resource, tuple(sorted(context.items())))


@dataclass
class Watch:
    """Notes calls of other kinds than the recorded ones."""

    unknown: set[Call] = field(default_factory=set[Call])

    def end(self) -> None:
        """Fail if there were any; record them if that is asked for."""
        if self.unknown and _RECORDING:
            with RECORD.open("a+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                known = {*_read(), *self.unknown}
                file.truncate(0)
                file.write(_text(known))
            self.unknown.clear()
        text = "\n".join(map(str, sorted(self.unknown)))
        assert not self.unknown, f"tests/support/calls.json lacks calls; record them if they are right:\n{text}"


def _text(calls: set[Call]) -> str:
    """JSON with a line per call."""
    calls = {one for one in calls if not one.among(calls - {one})}
    parts: list[str] = []
    for function in sorted({one.function for one in calls}):
        lines = [
            json.dumps([one.traits, one.action, one.resource, dict(one.context)])
            for one in sorted(calls)
            if one.function == function
        ]
        parts.append(f'"{function}": [\n  ' + ",\n  ".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


watching: list[Watch] = []
"""The watch that is open."""


def _before_parameter_build(params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
    timeout = context["client_config"].read_timeout
    if not watching or timeout == _OF_TESTS:
        return
    functions, saga, own = _running()
    steps = [step for step, queue in _queues().get(saga, {}).items() if queue == own]
    for function in functions:
        if function == "step" and timeout == _OF_AUTHORS:
            continue
        traits = traits_of(function, aws.LATEST[-1].classes, os.environ, saga, steps)
        for action, resource, keys, swept in _checks(model.service_model.service_name, model.name, params, saga, own):
            call = Call(function, () if action.startswith("kms:") else swept or traits, action, resource, keys)
            if not call.among(recorded()):
                watching[-1].unknown.add(call)


_handlers = cast("Any", handlers)
_handlers.BUILTIN_HANDLERS.append(("before-parameter-build", _before_parameter_build))


_start = threading.Thread.start
_NOTHING: Running = (), "", ""


def _started(thread: threading.Thread) -> None:
    """Start a thread, which asks for what the one that starts it asks for.

    A thread's frames are its own: to read those of another one, while that one runs, is not safe before Python 3.12.
    """
    if watching:
        cast("Any", thread).asks_for = _running()
    _start(thread)


cast("Any", threading.Thread).start = _started


def _running() -> Running:
    """The function whose code runs, or those; the saga type of a step, and its queue's name.

    The helpers of a function are threads of its own, in which its handler is not seen.
    """
    thread = threading.current_thread()
    if thread is not threading.main_thread():
        return getattr(thread, "asks_for", _NOTHING)
    frame = inspect.currentframe()
    functions, queue, called, callee = tuple[str, ...](), "", "", ""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file.startswith(_TESTS):
            if functions:
                break  # a test called them, in the midst of something else perhaps
            called = callee
        elif file.endswith("engine/attempt/call.py") and called and not called.endswith("engine/attempt/context.py"):
            return (), "", ""  # a step's code in a test asks the engine for what no function's code would
        elif name == "handler" and file.startswith(_HANDLERS):
            functions, source = (Path(file).stem,), _source_of(frame.f_locals.get("event"))
            queue = source if any(source in steps.values() for steps in _queues().values()) else queue
        elif file.startswith(_ENGINE) and (entry := _ENTRIES.get((Path(file).name, name))):
            functions = entry
            if name == "handle":
                message = frame.f_locals["message"]
                queue = queue or _queues().get(message.saga, {}).get(message.step, "")
        frame, callee = frame.f_back, file
    if functions != ("step",):
        return functions, "", ""
    return functions, next((saga for saga, steps in _queues().items() if queue in steps.values()), ""), queue


def _source_of(event: Any) -> str:
    """The name of the queue that an event is from. Tests send anything."""
    try:
        return str(event["Records"][0]["eventSourceARN"]).rpartition(":")[2]
    except (KeyError, IndexError, TypeError):
        return ""


def _queues() -> dict[str, dict[str, str]]:
    """The names of the step queues of the latest stack, by saga and step."""
    if not aws.LATEST:
        return {}
    queues = aws.LATEST[-1].queues
    return {saga: {step: url.rsplit("/", 1)[1] for step, url in of.items()} for saga, of in queues.items()}


def traits_of(
    function: str, classes: Iterable[type[Any]], variables: Mapping[str, Any], saga: str = "", steps: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return what the rights of a function depend on.

    Args:
        function: its handler's module.
        classes: the service's saga types.
        variables: the function's.
        saga: whose steps it runs, if it runs any.
        steps: their names.
    """
    definitions = {one.name: one for one in map(definition_of, classes)}
    families = {one.name for parent in definitions.values() if parent.children for one in (parent, *parent.children)}
    if function != "step":
        told = "payloads" in variables.get("SAGAS_EVENTS", "").split(",")
        return ("family",) * bool(families) + ("payloads",) * (function == "outbox" and told)
    if saga not in definitions:
        return ()
    own = definitions[saga]
    traits = {
        "counted": own.auto_disable is not None or bool(variables.get("SAGAS_AUTO_DISABLE")),
        "family": saga in families,
        "now": own.works_now,
        "public": any(one.public for one in own.steps if one.name in steps),
    }
    return tuple(name for name, has in traits.items() if has)


Check = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]


def _checks(service: str, operation: str, params: Mapping[str, Any], saga: str, own: str) -> Iterator[Check]:
    """What IAM checks of a request: actions, resources, context and, of a sweep, what it does with orphans."""
    match service:
        case "dynamodb":
            for action, table in _of_tables(operation, params):
                yield f"dynamodb:{action}", table, (), ()
        case "sqs":
            if queue := _queue(params["QueueUrl"], saga, own):
                yield f"sqs:{_BATCHED.get(operation, operation)}", queue, (), ()
        case "s3":
            yield from _of_objects(operation, params)
        case "kms":
            names = tuple((f"kms:EncryptionContext:{name}", "*") for name in sorted(params["EncryptionContext"]))
            yield f"kms:{operation}", "payload key", names, ()
        case "events":
            yield f"events:{operation}", "bus", (), ()
        case "secretsmanager":
            stage = params.get("VersionStage")
            yield (
                f"secretsmanager:{operation}",
                "callback secret",
                (("secretsmanager:VersionStage", stage),) if stage else (),
                (),
            )
        case _:
            yield f"{service}:{operation}", "*", (), ()


def _of_tables(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "TransactItems" in params:
        for item in params["TransactItems"]:
            for kind, part in item.items():
                yield _TRANSACTED[kind], _table(part["TableName"])
    elif "RequestItems" in params:
        for name in params["RequestItems"]:
            yield operation, _table(name)
    else:
        index = params.get("IndexName")
        yield operation, _table(params["TableName"]) + (f"/index/{index}" if index else "")


def _table(name: str) -> str:
    return name.rsplit("-", 1)[-1]


def _queue(url: str, saga: str, own: str) -> str | None:
    """A queue by its part in the service; ``None`` if it is missing, as a test may want."""
    stack, name = aws.LATEST[-1], url.rsplit("/", 1)[1]
    for other, steps in _queues().items():
        if name in steps.values() and name == own:
            return "own queue"
        if name in steps.values():
            return "queue of its type" if other == saga else "queue of a type"
    known = {
        stack.work: "work bulk",
        stack.now: "work now",
        stack.commands: "commands",
        stack.command_letters: "command letters",
        **dict.fromkeys(stack.dead.values(), "dead letters"),
    }
    return known.get(url)


def _of_objects(operation: str, params: Mapping[str, Any]) -> Iterator[Check]:
    bucket, key = params["Bucket"], params.get("Key", params.get("Prefix", ""))
    keys = [one["Key"] for one in params["Delete"]["Objects"]] if "Delete" in params else [key]
    actions = _OF_OBJECTS.get(operation, (operation,))
    if operation.startswith("ListObjects"):
        place, swept = _place(bucket, key)
        yield "s3:ListBucket", place.partition("/")[0], (("s3:prefix", place.partition("/")[2]),), swept
        return
    if "CopySource" in params:
        place, swept = _place(*_copied(params["CopySource"]))
        yield "s3:GetObject", place, (), swept
        if operation == "CopyObject" and params.get("TaggingDirective") != "REPLACE":
            yield "s3:GetObjectTagging", place, (), swept
            yield "s3:PutObjectTagging", _place(bucket, key)[0], (), swept
        actions = ("PutObject",)
    if "Tagging" in params:
        actions = (*actions, "PutObjectTagging")
    for action in actions:
        for one in keys:
            place, swept = _place(bucket, one)
            yield f"s3:{action}", place, (), swept


def _place(bucket: str, key: str) -> tuple[str, tuple[str, ...]]:
    """An object by its place in the service, and what a sweep does with such."""
    if bucket == aws.LATEST[-1].bucket:
        return f"payloads/{_beginning(key)}", ()
    if bucket == os.environ.get("SAGAS_ARCHIVE_BUCKET"):
        return f"archive/{_beginning(key)}", ()
    for definition in map(definition_of, aws.LATEST[-1].classes):
        orphans = definition.orphans
        if orphans is None:
            continue
        if bucket in (os.environ.get(orphans.bucket_env), os.environ.get(orphans.archive_bucket_env or "")):
            if key.startswith(f"archive/{definition.prefix}"):
                return "attic/archive/PREFIX", (orphans.action,)
            return f"swept/{'PREFIX' if key.startswith(definition.prefix) else 'ELSEWHERE'}", (orphans.action,)
    return f"{bucket}/{_beginning(key)}", ()


def _copied(source: Any) -> tuple[str, str]:
    """Bucket and key of what is copied: botocore makes one text of them."""
    if isinstance(source, str):
        bucket, _, key = unquote(source).partition("?")[0].partition("/")
        return bucket, key
    return source["Bucket"], source["Key"]


def _beginning(key: str) -> str:
    return f"{key.partition('/')[0]}/"
