"""What all tests have in common."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any, cast

import botocore.session
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.subjects import SUBJECTS, runs
from tests.support.hostile import FULL

_session = cast("Any", botocore.session)
_session.create_loader = cache(_session.create_loader)
"""A session reads botocore's models anew, hundreds of kilobytes of JSON, and moto makes a session for each test."""

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

_SLOWEST = (
    "typing/test_typing.py",
    "interleavings/test_stories.py",
    "faults/test_crash_points.py",
    "load/test_load.py",
    "interleavings/test_rules.py",
    "cdk/test_nested.py",
    "cdk/test_variants.py",
    "cdk/test_inout.py",
    "cdk/test_grants.py",
    "cdk/test_releases.py",
    "cdk/test_options.py",
    "cdk/test_monitoring.py",
    "cdk/test_account.py",
    "cdk/test_many_types.py",
    "handlers/test_bad_requests.py",
    "store/test_control.py",
    "engine/test_disaster.py",
    "engine/test_sweep_rounds.py",
    "handlers/test_warming.py",
    "soak/test_soak.py",
    "e2e/test_failures.py",
    "e2e/test_local_stack.py",
    "e2e/test_command_line.py",
    "e2e/console/test_pages_in_a_browser.py",
    "e2e/test_waiting.py",
    "e2e/test_hostile_api.py",
    "e2e/test_tutorials.py",
    "e2e/console/test_incidents.py",
    "e2e/test_elsewhere.py",
    "e2e/test_authoring.py",
    "e2e/test_isolation.py",
    "e2e/test_children.py",
    "e2e/test_cdk_cli.py",
)
"""Files that take longest, the longest first."""


def _left_to_the_proof(item: pytest.Item) -> bool:
    subjects = [mark.args[0] for mark in item.iter_markers("proof")]
    if unknown := set(subjects) - SUBJECTS.keys():
        raise pytest.UsageError(f"{item.nodeid}: no subject of tests/subjects.py: {', '.join(sorted(unknown))}")
    return bool(subjects) and not any(runs(subject) for subject in subjects)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose subjects have not changed. Where processes share the files, have them begin with the
    slowest, so that none has it left for the end."""
    if left := [item for item in items if _left_to_the_proof(item)]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    if hasattr(config, "workerinput"):
        place = {Path(__file__).parent / name: number for number, name in enumerate(_SLOWEST)}
        items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have garbage looked for among what tests make, not in modules and items, which stay: a tenth of the CPU.

    Moto, where tests have it, finds names for each answer anew, letter by letter: a tenth of what its tests take.
    """
    utils = sys.modules.get("moto.core.utils")
    for name in ("camelcase_to_underscores", "method_names_from_class") if utils else ():
        original = getattr(utils, name)
        found = cache(original)
        for module in [one for key, one in sys.modules.items() if key.startswith("moto.")]:
            if getattr(module, name, None) is original:
                setattr(module, name, found)
    gc.collect()
    gc.freeze()
