"""What all tests have in common."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from functools import cache
from math import inf
from tempfile import gettempdir
from typing import Any, cast

import botocore.hooks
import botocore.session
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests import durations
from tests.subjects import ROOT, SUBJECTS, runs, test_files
from tests.support.hostile import FULL

_session = cast("Any", botocore.session)
_session.create_loader = cache(_session.create_loader)
"""A session reads botocore's models anew, hundreds of kilobytes of JSON, and moto makes a session for each test."""

_hooks = cast("Any", botocore.hooks)
_hooks.EventAliaser._alias_event_name = staticmethod(_hooks.EventAliaser(None)._alias_event_name)
"""A session looks for the aliases of two hundred events, which takes more than half of its making."""

os.environ["XDG_CONFIG_HOME"] = gettempdir()
"""The command line saves its last list there, for completion; tests leave the user's own alone."""
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


def _left_to_the_proof(item: pytest.Item) -> bool:
    subjects = [mark.args[0] for mark in item.iter_markers("proof")]
    file = item.path.relative_to(ROOT).as_posix()
    for subject in subjects:
        if subject not in SUBJECTS or file not in test_files(subject):
            raise pytest.UsageError(f"{item.nodeid}: tests/subjects.py has no subject {subject!r} with {file}")
    return bool(subjects) and not any(runs(subject) for subject in subjects)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all processes the same durations, so that they collect in the same order."""
    node.workerinput["durations"] = durations.read()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose subjects have not changed.

    Processes that share the files begin with the slowest of the last run, so that none has it left for the end. Before
    the first run they begin with the files that have most tests.
    """
    if left := [item for item in items if _left_to_the_proof(item)]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    if worker := getattr(config, "workerinput", None):
        seconds = {config.rootpath / file: taken for file, taken in worker["durations"].items()}
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (-seconds.get(item.path, inf), -tests[item.path], item.path))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have garbage looked for among what tests make, not in modules and items, which stay: a tenth of the CPU.

    Moto, where tests have it, finds names for each answer anew, letter by letter: a tenth of what its tests take. Each
    of its mocks also adds a thousand addresses to those that ``requests`` may not reach, which nothing here uses.
    """
    utils = sys.modules.get("moto.core.utils")
    for name in ("camelcase_to_underscores", "method_names_from_class") if utils else ():
        original = getattr(utils, name)
        found = cache(original)
        for module in [one for key, one in sys.modules.items() if key.startswith("moto.")]:
            if getattr(module, name, None) is original:
                setattr(module, name, found)
    if models := sys.modules.get("moto.core.models"):
        models.RESPONSES_METHODS.clear()
    gc.collect()
    gc.freeze()
