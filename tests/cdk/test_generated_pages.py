"""The pages that are written from a template: they say what the constructs make, and leave nothing out."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

PAGES: Any = importlib.import_module("from_template")
ARCHITECTURE: Any = importlib.import_module("architecture")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The template of the service that has every part."""
    return PAGES.synthesize(str(tmp_path_factory.mktemp("everything")))


@pytest.mark.parametrize("name", sorted(PAGES.PAGES))
def test_a_page_says_what_the_template_says(name: str, everything: dict[str, Any]) -> None:
    assert (DOCS / name).read_text() == PAGES.PAGES[name](everything), "python docs/_ext/from_template.py"


def test_it_has_every_part_of_a_service(everything: dict[str, Any]) -> None:
    roles = [name for name, one in everything["Resources"].items() if one["Type"] == "AWS::IAM::Role"]
    assert len(roles) == 4 + 7  # of steps, and one for each other heading of the page
    assert len(PAGES.ROLES) == 1 + 7
    told = {role for role, _, _ in PAGES.statements(everything)}
    assert told == set(PAGES.ROLES)


def test_each_part_of_the_drawing_is_a_resource(everything: dict[str, Any]) -> None:
    ids = [part.logical_id for part in ARCHITECTURE.PARTS.values() if part.logical_id]
    assert ids
    assert [one for one in ids if not any(name.startswith(one) for name in everything["Resources"])] == []


def test_each_alarm_leads_to_a_section_of_the_runbook() -> None:
    runbook = (DOCS / "operations" / "runbook.md").read_text()
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ")).strip().lower().replace(" ", "-")
        for line in runbook.splitlines()
        if line.startswith("#")
    }
    anchors = set(re.findall(r"runbook\.md#([\w-]+)", (DOCS / "reference" / "alarms.md").read_text()))
    assert anchors
    assert anchors <= headings
