"""What keeps people from using a page, as axe finds it."""

from __future__ import annotations

from typing import Any, cast

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def barriers(page: Page, scheme: str) -> list[tuple[str, list[str]]]:
    """Return the serious ones: axe's name for each, and the first elements that have it.

    Args:
        page: as it is shown.
        scheme: of its colours. In the dark one only colours are looked at: all else is as in the light.
    """
    results = cast("Any", Axe()).run(page, options=_OF_COLOURS if scheme == "dark" else None)
    assert results.response["passes"], "axe looked at nothing"
    found = [one for one in results.response["violations"] if one["impact"] in ("serious", "critical")]
    return [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]
