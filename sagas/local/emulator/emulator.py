"""The emulator's process: ``python -m sagas.local.emulator.emulator PORT LOCK SECONDS [--attached] [ORIGIN ...]``.

The process serves ministack as ministack's own command does, and adds a graceful shutdown. The shutdown begins with
SIGTERM or, with ``--attached``, when the parent process ends. The emulator then delivers no more messages and scheduled
events, and waits for running functions, which need its tables and queues.

The emulator runs any code that it receives, so it refuses requests from web pages, unless their ORIGIN is allowed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

from hypercorn.config import Config

from sagas import threads
from sagas.engine.clock import skipped
from sagas.local.clock import CLOCK_READ_EVERY
from sagas.local.emulator.iam import add_version_stages, check_scopes_of_signatures, check_signatures_of_root
from sagas.local.emulator.move_tasks import add_move_tasks
from sagas.local.emulator.prefork import Prefork
from sagas.local.emulator.schedules import Schedules, follow
from sagas.local.emulator.shipped import PRELUDE
from sagas.local.files import hold_lock, still_running
from sagas.loopback import Loopback

_LOOKS_EVERY = 5.0
"""Seconds between two looks for the project's folder."""
_POLL = 0.05
_QUIET = 3
"""This many consecutive polls must find nothing running: a message is received shortly before its function starts."""


def main() -> int:
    """Serve until the process receives a signal. Returns the exit code: 0 after a graceful shutdown, 3 if another
    emulator holds the lock."""
    port, lock, patience, *options = sys.argv[1:]
    attached = "--attached" in options
    origins = [option for option in options if option != "--attached"]
    if not hold_lock(Path(lock)):
        return 3
    config = Config()
    config.bind = [f"127.0.0.1:{int(port)}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 1.0
    config.loglevel = "WARNING"
    _take_nested_stacks_as_one()
    # The delays of messages and the expiry of items follow the clock of the functions.
    clock = _SkippedTime(os.environ.get("SAGAS_CLOCK", ""))
    for service in ("sqs", "dynamodb"):
        _module(f"ministack.services.{service}").time = clock
    _log_by(clock)
    add_move_tasks(_module("ministack.services.sqs"), _module("ministack.core.iam_actions"))
    _fill_in_schedules()
    schedules = Schedules(_module("ministack.services.eventbridge"), _module("ministack.services.scheduler"))
    follow(schedules, clock, Path(lock).with_name("schedules"))
    _read_streams_aside()
    app = _module("ministack.app")
    evaluator = _module("ministack.core.iam_evaluator")
    check_signatures_of_root(app, evaluator)
    api_gateway = _module("ministack.services.apigateway_v1")
    check_scopes_of_signatures(app, evaluator, _module("ministack.core.sigv4"), api_gateway)
    _fill_in_stage_variables(api_gateway)
    _take_alarms_on_expressions()
    add_version_stages(_module("ministack.core.iam_actions"))
    runtime = _module("ministack.core.lambda_runtime")
    runtime._PYTHON_WORKER_SCRIPT = PRELUDE + runtime._PYTHON_WORKER_SCRIPT
    if sys.platform == "linux":
        runtime.subprocess = Prefork()
    trigger = partial(_until_stopped, float(patience), attached, Path(lock))
    guarded = Loopback(app.app, origins)
    asyncio.run(_module("hypercorn.asyncio").serve(guarded, config, shutdown_trigger=trigger))
    runtime.reset()
    return 0


async def _until_stopped(patience: float, attached: bool, lock: Path) -> None:
    """Wait for a signal, or until the project's folder is gone: nobody could stop the emulator then. Then wait for
    running functions."""
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop_requested.set)
    if attached:
        # Nobody writes to this pipe, so it becomes readable when the parent has closed the other end.
        loop.add_reader(sys.stdin.fileno(), stop_requested.set)
    while not stop_requested.is_set() and _exists(lock):
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOKS_EVERY):
                await stop_requested.wait()
    if attached:
        loop.remove_reader(sys.stdin.fileno())
    # From here on, nothing new starts, and running functions can finish.
    lambda_service = _module("ministack.services.lambda_svc")
    runtime = _module("ministack.core.lambda_runtime")
    lambda_service._poll_sqs = lambda: False
    lambda_service._poll_dynamodb_streams = lambda: False
    _module("ministack.services.eventbridge")._tick_scheduled_rules = lambda: None
    _module("ministack.services.scheduler")._tick_schedules = lambda: None
    quiet = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while quiet < _QUIET:
                running = lambda_service._esm_inflight or runtime.workers_in_use()
                quiet = 0 if running else quiet + 1
                with suppress(FileNotFoundError):
                    _note_functions_in_use(still_running(lock), runtime)
                await asyncio.sleep(_POLL)


def _exists(path: Path) -> bool:
    return path.exists()


def _note_functions_in_use(path: Path, runtime: Any) -> None:
    # the key of a pool is account:region:function:qualifier
    with runtime._lock:
        names = {key.split(":")[2] for key, pool in runtime._workers.items() if any(worker.in_use for worker in pool)}
    path.write_text(" ".join(sorted(names)))


def _take_nested_stacks_as_one() -> None:
    """Lift the limits of a template, because nested stacks are deployed as one template (``nested.py``). Each nested
    template is still checked: the CDK checks the number of resources, and ``assembly.py`` the size."""
    _module("ministack.services.cloudformation.helpers").TEMPLATE_URL_MAX_BYTES = sys.maxsize
    engine = _module("ministack.services.cloudformation.engine")
    engine._SECTION_QUOTAS = tuple(
        (*names, sys.maxsize if section == "Resources" else most)
        for *names, most in engine._SECTION_QUOTAS
        for section in names[:1]
    )


class _SkippedTime:
    """Replaces the module ``time``. Its ``time()`` follows the clock of the functions."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._ahead = 0.0
        self._read_at = -1.0

    def ahead(self) -> float:
        now = time.monotonic()
        if now - self._read_at > CLOCK_READ_EVERY:
            self._ahead = skipped(self._file)
            self._read_at = now
        return self._ahead

    def time(self) -> float:
        return time.time() + self.ahead()  # noqa: TID251 -- the emulator's own clock

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _log_by(clock: _SkippedTime) -> None:
    """Give log lines the time of the stack's clock: searches for a saga's lines start at the saga's creation."""
    logs = _module("ministack.services.cloudwatch_logs")
    append: Callable[..., None] = logs._append_log_events

    def append_by_clock(stream: dict[str, Any], events: list[dict[str, Any]]) -> None:
        ahead = round(clock.ahead() * 1000)
        append(stream, [{**event, "timestamp": event["timestamp"] + ahead} for event in events])

    logs._append_log_events = append_by_clock


def _fill_in_stage_variables(api_gateway: Any) -> None:
    """Have the variables of a stage name the function of an integration, which ministack does not do."""
    invoke: Callable[..., Any] = api_gateway._invoke_lambda_proxy_v1

    async def invoke_filled(
        integration: dict[str, Any], api: str, name: str, stage: dict[str, Any], *rest: Any, **more: Any
    ) -> Any:
        uri = str(integration.get("uri", ""))
        variables: dict[str, str] = stage.get("variables") or {}
        for variable, value in variables.items():
            uri = uri.replace(f"${{stageVariables.{variable}}}", value)
        return await invoke({**integration, "uri": uri}, api, name, stage, *rest, **more)

    api_gateway._invoke_lambda_proxy_v1 = invoke_filled


def _take_alarms_on_expressions() -> None:
    """Have CloudFormation create alarms on expressions, which ministack refuses. No alarm is evaluated here, so one of
    its metrics stands for the expression."""
    provisioners = _module("ministack.services.cloudformation.provisioners")
    record: Callable[[str, dict[str, Any]], dict[str, Any]] = provisioners._cw_metric_alarm_record

    def record_any(name: str, properties: dict[str, Any]) -> dict[str, Any]:
        stats: list[dict[str, Any]] = [
            one["MetricStat"] for one in properties.get("Metrics", ()) if "MetricStat" in one
        ]
        if not stats:
            return record(name, properties)
        plain = {key: value for key, value in properties.items() if key != "Metrics"}
        return record(name, plain | stats[0]["Metric"] | {"Period": stats[0]["Period"], "Statistic": stats[0]["Stat"]})

    provisioners._cw_metric_alarm_record = record_any


def _fill_in_schedules() -> None:
    """Have Scheduler replace placeholders in a target's input, which ministack does not do."""
    eventbridge = _module("ministack.services.eventbridge")
    invoke: Callable[..., None] = eventbridge._invoke_target

    def invoke_filled(target: dict[str, Any], event: dict[str, Any], rule: dict[str, Any], view: Any = None) -> None:
        if event.get("Source") == "aws.scheduler" and "Input" in target:
            at = datetime.fromtimestamp(float(event["Time"]), UTC)
            values = {
                "execution-id": str(event["EventId"]),
                "scheduled-time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "schedule-arn": str(rule.get("Arn", "")),
                "attempt-number": "1",
            }
            text = str(target["Input"])
            for name, value in values.items():
                text = text.replace(f"<aws.scheduler.{name}>", value)
            target = {**target, "Input": text}
        invoke(target, event, rule, view)

    eventbridge._invoke_target = invoke_filled


def _read_streams_aside() -> None:
    """Read streams in a separate thread. Otherwise ministack reads streams and queues in turns and calls functions in
    the same thread, so a failing function would block all queues."""
    lambda_service = _module("ministack.services.lambda_svc")
    read: Callable[[], bool] = lambda_service._poll_dynamodb_streams
    requested = Event()

    def wait() -> bool:
        requested.wait()
        requested.clear()
        return False

    def read_all() -> bool:
        while read():
            pass
        return True

    def ask() -> bool:
        requested.set()
        return False

    threads.repeat("streams", wait, read_all, logging.getLogger(__name__))
    lambda_service._poll_dynamodb_streams = ask


def _module(name: str) -> Any:
    """Import a module that has no type information. Most are ministack's. Its version is pinned, because its internals
    are used."""
    return import_module(name)


if __name__ == "__main__":
    sys.exit(main())
