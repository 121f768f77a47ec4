"""What all tests have in common."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any, cast

import botocore.hooks
import botocore.session
import pytest
from hypothesis import HealthCheck, Phase, settings

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


def pytest_configure(config: pytest.Config) -> None:
    """Without ``-m``, run what is fast; of a file or a test that is named, everything."""
    named = any(Path(arg.partition("::")[0]).suffix for arg in config.args)
    if not (config.option.markexpr or named):
        config.option.markexpr = "not slow and not proof"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of the whole stack, which wait for more than half of their time."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


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
