"""What all tests have in common."""

from __future__ import annotations

import gc
import os
import shlex
import signal
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any, cast

import botocore.hooks
import botocore.session
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.hostile import FULL
from tests.support.shared import RUN

_session = cast("Any", botocore.session)
_session.create_loader = cache(_session.create_loader)
"""A session reads botocore's models anew, hundreds of kilobytes of JSON, and moto makes a session for each test."""

_hooks = cast("Any", botocore.hooks)
_hooks.EventAliaser._alias_event_name = staticmethod(_hooks.EventAliaser(None)._alias_event_name)
"""A session looks for the aliases of two hundred events, which takes more than half of its making."""

os.environ["CDK_VALIDATION"] = "false"
"""The CDK's own look at a template takes nearly half of its making; ``make synth`` has it, and cfn-lint looks here."""

settings.register_profile(
    "sagas",
    max_examples=500 if FULL else 40,
    derandomize=not FULL,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ),
    print_blob=True,
)
settings.load_profile("sagas")
"""A property has the same few examples each time in the gate, and others each time, many more, in the proof. No failure
is explained: that takes minutes in tests that make mistakes on purpose."""

gc.set_threshold(50_000, 20, 20)
"""Little of what is made while tests are collected is garbage."""


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of a run one folder for what they leave, and have them clean up when they are asked to end."""
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background, a shell has the first ignored
        signal.signal(number, signal.default_int_handler)
    if RUN not in os.environ:
        folder = TemporaryDirectory(prefix="sagas-tests-", ignore_cleanup_errors=True)
        os.environ[RUN] = folder.name
        config.add_cleanup(folder.cleanup)
    os.environ["TMPDIR"] = os.environ[RUN]
    # The command line saves its last list there, for completion; tests leave the user's own alone.
    os.environ["XDG_CONFIG_HOME"] = os.environ[RUN]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless ``-m`` chooses or its file is named; begin with the tests of the whole stack,
    which wait for more than half of their time."""
    named = {config.invocation_params.dir / arg.partition("::")[0] for arg in config.args}
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("proof")]
    if not config.option.markexpr and (left := {item for item in slow if item.path not in named}):
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a command that repeats what failed, which a shell takes as it is."""
    reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    if failed := dict.fromkeys(report.nodeid for report in reports):
        terminalreporter.write_line(f"Repeat: pytest {shlex.join(failed)}")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have garbage looked for among what tests make, not in modules and items, which stay: a tenth of the CPU."""
    gc.collect()
    gc.freeze()
