"""The documentation: generated pages are fresh, every public name has an entry, old addresses lead on."""

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

GENERATED: Any = importlib.import_module("generated")
REDIRECTS: Any = importlib.import_module("redirects")
REFERENCE = "\n".join(path.read_text() for path in sorted((DOCS / "reference").glob("*.md")))


@pytest.mark.parametrize("name", sorted(GENERATED.PAGES))
def test_a_generated_page_says_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED.PAGES[name](), "make docs"


@pytest.mark.parametrize("module", ["sagas", "sagas.cdk", "sagas.testing", "sagas.client"])
def test_every_public_name_has_an_entry(module: str) -> None:
    names = importlib.import_module(module).__all__
    if f"automodule:: {module}\n   :members:" in REFERENCE:
        return  # all of them, by themselves
    assert [name for name in names if not re.search(rf"\b{name}\b", REFERENCE)] == []


def test_every_code_of_the_api_has_an_anchor() -> None:
    answers: Any = importlib.import_module("sagas.handlers.answers")
    assert {code for _, _, code in answers._CODES} <= set(GENERATED.CODES)


def test_pages_that_moved_lead_on() -> None:
    for old, new in REDIRECTS.MOVED.items():
        assert not (DOCS / f"{old}.md").exists()
        assert (DOCS / f"{new}.md").is_file()


def test_every_page_is_reached_and_no_link_of_a_page_leads_nowhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
