"""The emulator's process: ``python -m sagas.local.emulator.emulator PORT LOCK SECONDS [--attached] [ORIGIN ...]``.

It serves ministack as ministack's own command does, and adds an orderly end. On SIGTERM, or when the process that
started it with ``--attached`` goes away, it hands out no more messages or scheduled events, waits until running
functions are done, and only then stops: they need its tables and queues to finish.

It runs any code that it is given, so it answers no request of a page in a browser, except pages of the origins named.
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
from threading import Event, Thread
from typing import Any

from hypercorn.config import Config

from sagas.engine.clock import skipped
from sagas.local.clock import CLOCK_READ_EVERY
from sagas.local.emulator.iam import add_version_stages, check_scopes_of_signatures, check_signatures_of_root
from sagas.local.emulator.move_tasks import add_move_tasks
from sagas.local.emulator.prefork import Prefork
from sagas.local.files import hold_lock, still_running
from sagas.loopback import Loopback

_POLL = 0.05
_QUIET = 3
"""Polls in a row that must find nothing running: a message is taken a moment before its function starts."""


def main() -> int:
    """Serve until told to stop. Returns the exit code: 0 after an orderly end, 3 if another emulator holds the lock."""
    port, lock, patience, *more = sys.argv[1:]
    attached, origins = "--attached" in more, [one for one in more if one != "--attached"]
    if not hold_lock(Path(lock)):
        return 3
    config = Config()
    config.bind = [f"127.0.0.1:{int(port)}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 1.0
    config.loglevel = "WARNING"
    _take_nested_stacks_as_one()
    # Messages wait, and items expire, by the clock that the functions have.
    clock = _SkippedTime(os.environ.get("SAGAS_CLOCK", ""))
    for service in ("sqs", "dynamodb"):
        _module(f"ministack.services.{service}").time = clock
    _log_by(clock)
    add_move_tasks(_module("ministack.services.sqs"), _module("ministack.core.iam_actions"))
    _fill_in_schedules()
    _read_streams_aside()
    app, evaluator = _module("ministack.app"), _module("ministack.core.iam_evaluator")
    check_signatures_of_root(app, evaluator)
    api_gateway = _module("ministack.services.apigateway_v1")
    check_scopes_of_signatures(app, evaluator, _module("ministack.core.sigv4"), api_gateway)
    add_version_stages(_module("ministack.core.iam_actions"))
    if sys.platform == "linux":
        _module("ministack.core.lambda_runtime").subprocess = Prefork()
    trigger = partial(_until_stopped, float(patience), attached, still_running(Path(lock)))
    served = Loopback(app.app, origins)
    asyncio.run(_module("hypercorn.asyncio").serve(served, config, shutdown_trigger=trigger))
    _module("ministack.core.lambda_runtime").reset()
    return 0


async def _until_stopped(patience: float, attached: bool, waits_for: Path) -> None:
    """Return when it is time to stop serving."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, asked.set)
    if attached:
        # Nobody writes to this pipe: it becomes readable when its other end is closed.
        loop.add_reader(sys.stdin.fileno(), asked.set)
    await asked.wait()
    if attached:
        loop.remove_reader(sys.stdin.fileno())
    # Nothing new starts from here on; what runs may finish.
    lambda_service, runtime = _module("ministack.services.lambda_svc"), _module("ministack.core.lambda_runtime")
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
                _note_functions_in_use(waits_for, runtime)
                await asyncio.sleep(_POLL)


def _note_functions_in_use(path: Path, runtime: Any) -> None:
    """Write down the names of the functions that run now."""
    # a pool's key is account:region:function:qualifier
    with runtime._lock:
        names = {key.split(":")[2] for key, pool in runtime._workers.items() if any(one.in_use for one in pool)}
    path.write_text(" ".join(sorted(names)))


def _take_nested_stacks_as_one() -> None:
    """Lift the limits of a template: what is deployed here as one template is several in the cloud (``nested.py``).

    Each of those is held to them: by the CDK, which counts resources, and when it is read, for its size.
    """
    _module("ministack.services.cloudformation.helpers").TEMPLATE_URL_MAX_BYTES = sys.maxsize
    engine = _module("ministack.services.cloudformation.engine")
    engine._SECTION_QUOTAS = tuple(
        (*names, sys.maxsize if section == "Resources" else most)
        for *names, most in engine._SECTION_QUOTAS
        for section in names[:1]
    )


class _SkippedTime:
    """The module ``time``, but for ``time()``, which is as far ahead as the functions' clock is."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._ahead, self._read_at = 0.0, -1.0

    def ahead(self) -> float:
        """Seconds by which it is ahead of this machine's clock."""
        now = time.monotonic()
        if now - self._read_at > CLOCK_READ_EVERY:
            self._ahead, self._read_at = skipped(self._file), now
        return self._ahead

    def time(self) -> float:
        return time.time() + self.ahead()  # noqa: TID251 -- the emulator's own clock

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _log_by(clock: _SkippedTime) -> None:
    """Have log lines bear the clock's time: those of a saga are looked for from its creation on."""
    logs = _module("ministack.services.cloudwatch_logs")
    append: Callable[..., None] = logs._append_log_events

    def append_by_clock(stream: dict[str, Any], events: list[dict[str, Any]]) -> None:
        ahead = round(clock.ahead() * 1000)
        append(stream, [{**event, "timestamp": event["timestamp"] + ahead} for event in events])

    logs._append_log_events = append_by_clock


def _fill_in_schedules() -> None:
    """Have Scheduler fill in what stands for an execution in a target's input; ministack leaves it there."""
    eventbridge = _module("ministack.services.eventbridge")
    invoke: Callable[..., None] = eventbridge._invoke_target

    def invoke_filled(target: dict[str, Any], event: dict[str, Any], rule: dict[str, Any], view: Any = None) -> None:
        if event.get("Source") == "aws.scheduler" and "Input" in target:
            at = datetime.fromtimestamp(float(event["Time"]), UTC)
            known = {
                "execution-id": str(event["EventId"]),
                "scheduled-time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "schedule-arn": str(rule.get("Arn", "")),
                "attempt-number": "1",
            }
            text = str(target["Input"])
            for name, value in known.items():
                text = text.replace(f"<aws.scheduler.{name}>", value)
            target = {**target, "Input": text}
        invoke(target, event, rule, view)

    eventbridge._invoke_target = invoke_filled


def _read_streams_aside() -> None:
    """Have streams read by a thread of their own. ministack reads them between queues, and calls functions there: one
    that fails for a while would hold up all queues."""
    lambda_service = _module("ministack.services.lambda_svc")
    read: Callable[[], bool] = lambda_service._poll_dynamodb_streams
    asked = Event()

    def keep_reading() -> None:
        while True:
            asked.wait()
            asked.clear()
            try:
                while read():
                    pass
            except Exception:
                logging.getLogger(__name__).exception("a stream could not be read")

    def ask() -> bool:
        asked.set()
        return False

    Thread(target=keep_reading, name="streams", daemon=True).start()
    lambda_service._poll_dynamodb_streams = ask


def _module(name: str) -> Any:
    """A module without types. Most are ministack's, whose version is pinned: what they hold is its own affair."""
    return import_module(name)


if __name__ == "__main__":
    sys.exit(main())
