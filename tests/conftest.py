"""What all tests have in common."""

from __future__ import annotations

import gc
import os
from functools import cache
from pathlib import Path
from typing import Any, cast

import botocore.session
import pytest

_session = cast("Any", botocore.session)
_session.create_loader = cache(_session.create_loader)
"""A session reads botocore's models anew, hundreds of kilobytes of JSON, and moto makes a session for each test."""

os.environ["CDK_VALIDATION"] = "false"
"""The CDK's own look at a template takes nearly half of its making; ``make synth`` has it, and cfn-lint looks here."""

_SLOWEST = (
    "typing/test_typing.py",
    "cdk/test_nested.py",
    "interleavings/test_stories.py",
    "cdk/test_options.py",
    "cdk/test_many_types.py",
    "store/test_control.py",
    "cdk/test_shared_functions.py",
    "store/test_commits.py",
    "cdk/test_monitoring.py",
    "engine/test_breaker.py",
    "cdk/test_sweeping.py",
    "engine/test_auto_disable.py",
    "engine/test_recovery.py",
    "handlers/test_api.py",
    "handlers/test_bad_requests.py",
    "e2e/test_local_stack.py",
    "e2e/test_failures.py",
    "e2e/console/test_pages_in_a_browser.py",
    "e2e/console/test_site.py",
    "e2e/test_command_line.py",
    "soak/test_soak.py",
    "e2e/test_elsewhere.py",
    "e2e/test_cdk_cli.py",
    "e2e/test_hostile_api.py",
)
"""Files that take longest, the longest first."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processes share the files, have them begin with the slowest, so that none has it left for the end."""
    if hasattr(config, "workerinput"):
        place = {Path(__file__).parent / name: number for number, name in enumerate(_SLOWEST)}
        items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have garbage looked for among what tests make, not in modules and items, which stay: a tenth of the CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
