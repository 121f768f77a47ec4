"""The documentation as a reader has it: built, complete, without anything foreign, and in a browser."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.e2e.console.accessible import barriers

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs"
sys.path[:0] = [str(DOCS), str(DOCS / "_ext")]

publish: Any = importlib.import_module("publish").publish
PAGES = (
    "index",
    "glossary",
    "contributing/testing",
    "tutorial/first-saga",
    "concepts/states",
    "reference/permissions",
    "compare/temporal",
    "build/change-code",
    "build/children",
    "operations/index",
    "operations/runbook",
)
FOREIGN = re.compile(r"""(?:src=|@import\s|url\()\s*["']?(?:https?:)?//|<link[^>]+href=["'](?:https?:)?//""")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests say what is wrong."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; what that has read already and nobody changed is not read again."""
    built, read = tmp_path_factory.mktemp("site"), DOCS.parent / "build" / "site"
    if (read / ".doctrees").is_dir():
        shutil.copytree(read, built, dirs_exist_ok=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-n", "-W", "-q", str(DOCS), str(built)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(scope="module")
def served(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Two versions of it side by side, at the address that is returned."""
    public = tmp_path_factory.mktemp("public")
    for name in ("0.1", "0.2"):
        publish(site, public, name)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(public)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_no_page_takes_anything_from_elsewhere(site: Path) -> None:
    files = [path for kind in ("*.html", "*.css", "*.svg") for path in site.rglob(kind)]
    assert len(files) > 60
    found = [(path.name, one.group()) for path in files for one in FOREIGN.finditer(path.read_text())]
    assert found == []


def test_every_page_is_there_as_markdown_and_listed_for_machines(site: Path) -> None:
    names = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    listed = set(re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text()))
    assert listed == set(names)
    assert [name for name in names if not (site / name).is_file()] == []
    assert (site / "llms-full.txt").stat().st_size < 500_000


def test_the_first_use_of_a_term_leads_to_the_glossary(site: Path) -> None:
    page = (site / "concepts" / "guarantees.html").read_text()
    assert page.count('href="../glossary.html#term-lease"') == 1
    entry = re.search(r'href="(\.\./glossary\.html#term-dead-letter)"', page)
    assert entry is not None
    assert 'id="term-dead-letter"' in (site / "glossary.html").read_text()


def test_each_section_of_the_runbook_that_an_alarm_names_is_an_anchor(site: Path) -> None:
    named = set(re.findall(r"runbook\.md#([\w-]+)", (DOCS / "reference" / "alarms.md").read_text()))
    page = (site / "operations" / "runbook.html").read_text()
    assert [one for one in named if f'id="{one}"' not in page] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_telephone(chromium: Browser, served: str, scheme: Any) -> None:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 320, "height": 700})
    page, fetched = context.new_page(), list[str]()
    page.on("request", lambda request: fetched.append(request.url))
    for name in PAGES:
        page.goto(f"{served}/0.2/{name}.html")
        assert barriers(page, scheme) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, name
    assert [url for url in fetched if not url.startswith(served)] == []
    context.close()


def test_one_finds_commands_codes_alarms_and_actions(chromium: Browser, served: str) -> None:
    context = chromium.new_context()
    page = context.new_page()
    for wanted in (
        "dlq redrive",
        "idempotency_key_reused",
        "SupervisorSilent",
        "StepLost",
        "auto_disable",
        "SagaDuration",
    ):
        page.goto(f"{served}/0.2/search.html?q={wanted}")
        page.wait_for_selector("ul.search li", timeout=20_000)
    context.close()


def test_a_page_with_the_words_in_its_title_is_found_first(chromium: Browser, served: str) -> None:
    context = chromium.new_context()
    page = context.new_page()
    for words, first in {"guarantees": "concepts/guarantees", "parallel": "build/children"}.items():
        page.goto(f"{served}/0.2/search.html?q={words}")
        page.wait_for_selector(f'ul.search li:first-child a[href*="{first}.html"]', timeout=20_000)
    context.close()


def test_the_switcher_leads_to_the_same_page_of_another_version(chromium: Browser, served: str) -> None:
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(f"{served}/latest/build/waits.html")
    page.wait_for_url(f"{served}/0.2/build/waits.html")
    box = page.locator("#versions")
    box.wait_for(state="visible")
    assert json.loads(box.evaluate("box => JSON.stringify([...box.options].map(one => one.value))")) == ["0.2", "0.1"]
    box.select_option("0.1")
    page.wait_for_url(f"{served}/0.1/build/waits.html")
    context.close()


def test_code_is_copied_without_its_prompts(chromium: Browser, served: str) -> None:
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{served}/0.2/tutorial/first-saga.html")
    page.locator("div.highlight-console").nth(1).hover()
    page.locator("div.highlight-console button.copybtn").nth(1).click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('sagas start'))")
    copied: str = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0] == "sagas local up --detach"
    assert "$ " not in copied
    context.close()
