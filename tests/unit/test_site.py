"""The documentation: generated files are fresh, every public name has an entry, old addresses lead on."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import boto3
import pytest

from sagas import Saga, sleep, step, wait_for
from sagas.authoring.children import ChildrenOptions
from sagas.authoring.steps import Undoable
from sagas.core.automaton import ROWS
from sagas.core.states import ENDED, SagaStatus

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

GENERATED: Any = importlib.import_module("generated")
WAYS: Any = importlib.import_module("ways")
WRITE = "run `make docs`; without the site: PYTHONPATH=. python docs/_ext/generated.py"
PAGES: dict[Path, str] = {path: path.read_text() for path in sorted(DOCS.rglob("*.md"))} | {
    DOCS / name: made() for name, made in GENERATED.PAGES.items()
}
"""Each page of the site, as the next build has it."""
QUESTIONS = {
    "How do I repeat a review until it is accepted?": "build/index, build/patterns#loop-with-resubmission",
    "What one step stored on self is gone in the next: why?": "concepts/sagas-in-ten-minutes",
    "An event started no saga: where is it?": "build/index, build/events#rejected-events-and-commands",
    "Can I run a second local stack?": "tutorial/first-saga#run-it",
    "How does a test replace my payment client?": "build/index, build/patterns#inject-fakes",
    "Two sagas need the same record: who goes first?": "build/index, build/patterns#take-turns-the-semantic-lock",
    "What does a cancel do after the money was captured?": "build/index, build/undo#the-point-of-no-return",
    "How does a step start another saga?": "build/index, build/children#start-an-independent-saga",
    "The provider is back: how do I retry all, one first?": "operations/index, operations/search#many-at-once",
    "Which sagas are those of customer c-5?": "operations/index, operations/search#by-customer-order-or-other-values",
}
"""What users have asked, and the clicks from Home to the answer: at most two, since an index lists sections, too."""
REFERENCE = "\n".join(text for path, text in PAGES.items() if path.parent.name == "reference")


@pytest.mark.parametrize("name", sorted(GENERATED.IN_GIT))
def test_a_generated_file_in_git_says_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED.IN_GIT[name](), WRITE


@pytest.mark.parametrize("name", ["dead-letter", "release"])
def test_a_drawing_of_a_way_shows_what_the_automaton_and_the_command_line_have(name: str) -> None:
    parts, arrows = WAYS.WAYS[name]
    changes = {(source, target) for row in ROWS for source in row.sources for target in row.targets}
    texts = {key: f"{part.title}, {part.note}" for key, part in parts.items()}
    statuses = {
        key: status for key, text in texts.items() for status in SagaStatus if re.search(rf"\b{status}\b", text)
    }
    reached, drawn = [(status, key) for key, status in statuses.items()], set[tuple[SagaStatus, SagaStatus]]()
    for status, key in reached:  # which grows: parts without a status are passed
        for target in (target for source, target in arrows if source == key):
            if target in statuses:
                drawn.add((status, statuses[target]))
            elif (status, target) not in reached:
                reached.append((status, target))
    assert (SagaStatus.DEAD_LETTERED, SagaStatus.RUNNING) in drawn <= changes
    commands = {text for part in parts.values() for text in (part.title, part.note) if text.startswith("sagas ")}
    listed = re.findall(r"^### (sagas .+)$", PAGES[DOCS / "reference" / "commands.txt"], re.MULTILINE)
    assert commands
    assert commands <= set(listed)


def test_git_has_no_page_that_the_site_writes() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {line.removeprefix("/docs/") for line in ignored if line.startswith("/docs/")} == set(GENERATED.PAGES)


def test_only_what_differs_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GENERATED, "DOCS", tmp_path)
    page = tmp_path / "folder" / "a.md"
    for text in ("old", "new"):
        GENERATED.write({"folder/a.md": lambda text=text: text})
        assert page.read_text() == text
    page.chmod(0o444)
    GENERATED.write({"folder/a.md": lambda: "new"})
    assert page.stat().st_mode & 0o222 == 0


def test_the_readme_links_to_nothing_that_only_the_site_has() -> None:
    linked = set(re.findall(r"\]\(docs/([^)#\s]+)", (ROOT / "README.md").read_text()))
    assert linked
    assert {name for name in linked if not (DOCS / name).is_file() or name in GENERATED.PAGES} == set()


def test_a_link_to_a_page_that_only_the_site_has_says_so() -> None:
    on_the_site = " (on the site)"
    for page, text in PAGES.items():
        if page.relative_to(DOCS).as_posix() in GENERATED.PAGES:
            continue
        for link in re.finditer(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text):
            target = (page.parent / link[1]).resolve()
            generated = target.is_relative_to(DOCS) and target.relative_to(DOCS).as_posix() in GENERATED.PAGES
            assert text.startswith(on_the_site, link.end()) == generated, f"{page.name}: {link[0]}"


@pytest.mark.parametrize("module", ["sagas", "sagas.cdk", "sagas.testing", "sagas.client"])
def test_every_public_name_has_an_entry(module: str) -> None:
    names = importlib.import_module(module).__all__
    if f"automodule:: {module}\n   :members:" in REFERENCE:
        return  # all of them, by themselves
    assert [name for name in names if not re.search(rf"\b{name}\b", REFERENCE)] == []


def test_every_code_of_the_api_has_an_anchor() -> None:
    answers: Any = importlib.import_module("sagas.handlers.http.answers")
    assert {code for _, _, code in answers._CODES} <= set(GENERATED.CODES)
    page = PAGES[DOCS / "reference" / "errors.md"]
    told = PAGES[DOCS / "reference" / "http-api.md"]
    assert {code for code in re.findall(r"errors\.md#(\w+)", told) if f"### {code}\n" not in page} == set()


def test_every_metric_that_is_written_is_on_the_page_and_no_other() -> None:
    metrics: Any = importlib.import_module("sagas.handlers.telemetry")
    handlers = "\n".join(path.read_text() for path in sorted((ROOT / "sagas" / "handlers").rglob("*.py")))
    names = re.findall(r"\.(?:count|measure|add_metric)\(([^,]*),", handlers)
    written = set(re.findall(r'"(\w+)"', " ".join(names)))
    ends = {f"Saga{status.title().replace('_', '')}" for status in [*ENDED, SagaStatus.DEAD_LETTERED]}
    assert written | ends == set(metrics.METRICS)


def test_every_page_is_reached_and_no_link_of_a_page_leads_nowhere() -> None:
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text):
            there = (page.parent / target).resolve()
            assert there in PAGES or there.exists(), f"{page.relative_to(ROOT)}: {target}"


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks_from_home(question: str) -> None:
    page, clicks = DOCS / "index.md", QUESTIONS[question].split(", ")
    assert len(clicks) <= 2
    for click in clicks:
        name, _, anchor = click.partition("#")
        listed = ":maxdepth: 2\n" in PAGES[page] and f"\n{Path(name).name}\n" in PAGES[page]
        assert listed or f"]({name}.md)" in PAGES[page], f"{page} does not lead to {click}"
        page = DOCS / f"{name}.md"
        sections = re.findall("^## (.+)$", PAGES[page], re.MULTILINE)
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in sections]


def test_versions_stand_side_by_side(tmp_path: Path) -> None:
    sys.path.insert(0, str(DOCS))
    publish: Any = importlib.import_module("publish").publish
    for name in ("0.9", "0.10"):
        site = tmp_path / f"built-{name}"
        (site / "build").mkdir(parents=True)
        (site / "build" / "waits.html").write_text(f"version {name}")
        versions = publish(site, tmp_path / "public", name)
    assert versions == ["0.10", "0.9"]
    listed = json.loads((tmp_path / "public" / "versions.json").read_text())
    assert listed == {"latest": "0.10", "versions": ["0.10", "0.9"]}
    assert "../../0.10/build/waits.html" in (tmp_path / "public" / "latest" / "build" / "waits.html").read_text()
    assert (tmp_path / "public" / "0.9" / "build" / "waits.html").read_text() == "version 0.9"


def test_the_pages_that_compare_have_the_same_rows_and_each_cell_its_source() -> None:
    compared: Any = importlib.import_module("comparison")
    assert len(compared.ALTERNATIVES) == 6
    assert len(compared.ROWS) == len(compared.OURS) == 18
    for name, alternative in compared.ALTERNATIVES.items():
        assert len(alternative.cells) == 18, name
        for row, (text, letters) in zip(compared.ROWS, alternative.cells, strict=True):
            assert text, (name, row)
            assert letters, (name, row)
            assert set(letters) <= set(alternative.sources), (name, row)
        assert re.search(r"\bno\b", " ".join(compared.OURS)), "what we lack is said"
    for name in compared.PAGES:
        assert compared.READ in PAGES[DOCS / name]


def test_the_page_on_changing_code_is_short() -> None:
    assert len((DOCS / "build" / "change-code.md").read_text().split()) <= 1_000


def test_every_page_that_the_changelog_names_is_there() -> None:
    named = set(re.findall(r"`(docs/[\w/-]+\.md)`", (ROOT / "CHANGELOG.md").read_text()))
    assert named
    assert [name for name in sorted(named) if ROOT / name not in PAGES] == []


def test_the_api_has_an_entry_for_every_call_about_a_saga() -> None:
    calls = re.findall(r"^## (\w+ /\S+)$", PAGES[DOCS / "reference" / "http-api.md"], re.MULTILINE)
    one = "/sagas/{type}/{saga_id}"
    changes = [f"POST {one}/{verb}" for verb in ("retry", "compensate", "resolve", "purge")]
    assert {
        "POST /sagas/{type}",
        f"GET {one}",
        f"DELETE {one}",
        f"GET {one}/audit",
        f"GET {one}/verification",
        *changes,
        f"PUT {one}/recovery-attempts",
        f"POST {one}/signals/{{step}}",
        "POST /callbacks/{token}",
    } <= set(calls)
    assert len(calls) == len(set(calls))
    routes = "\n".join(call.partition(" ")[2] for call in calls)
    assert set(re.findall(r"/sagas/([^/\n]+)", routes)) == {"{type}", "{saga_id}"}


def test_defaults_are_shown_as_they_are_written() -> None:
    page = PAGES[DOCS / "reference" / "keywords-and-policies.md"]
    assert "| `find_by` | none |" in page
    assert "| `on_exhausted` | `None` |" in page
    assert not re.search(r"`<\w", page)
    assert "| `timeout` | `None` | how long an attempt can take from the start of its code" in page
    assert "| `open_for` | `30.0` | seconds" in page
    assert "| `concurrency` | `40` |" in page
    assert page.count("| `on_timeout` |") == 2  # of step and of wait_for, whose overloads count as one


def test_every_keyword_of_authors_is_on_the_page() -> None:
    page = PAGES[DOCS / "reference" / "keywords-and-policies.md"]
    head = re.search(r"def __init_subclass__\(\s*cls,\s*\*,(.*?)\) -> None", inspect.getsource(Saga), re.DOTALL)
    assert head
    compensate: Any = vars(Undoable)["compensate"]
    calls: tuple[Any, ...] = (step, compensate, wait_for, sleep)
    declared = {call.__name__: set[str](GENERATED.given_to(call)) - {"self", "fn"} for call in calls}
    declared |= {"Class keywords": set(re.findall(r"^\s*(\w+):", head[1], re.MULTILINE))}
    declared |= {"children": {"types", *ChildrenOptions.__annotations__}}
    for section, names in declared.items():
        rows = re.split(rf"^##+ {section}$", page, flags=re.MULTILINE)[1].partition("\n##")[0]
        assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == names, section


def test_every_entry_of_the_reference_says_what_it_means() -> None:
    entries = r"^(?:\| `.*\| *\||### .*\n\n+(?:#.*|))$"  # a row whose last cell is empty, a heading without a text
    for name in ("audit-actions.md", "commands.txt", "errors.md", "metrics.md"):
        assert re.findall(entries, PAGES[DOCS / "reference" / name], re.MULTILINE) == [], name


def test_every_public_name_says_what_it_is() -> None:
    for module in ("sagas", "sagas.cdk", "sagas.testing", "sagas.client"):
        of = importlib.import_module(module)
        assert [name for name in of.__all__ if not (getattr(of, name).__doc__ or "").strip()] == [], module


def test_every_action_that_an_audit_trail_shows_is_on_the_page() -> None:
    schemas: Any = importlib.import_module("sagas.handlers.http.schemas")
    page = PAGES[DOCS / "reference" / "audit-actions.md"]
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(schemas._ACTIONS), WRITE


def test_the_page_of_the_command_line_includes_every_command() -> None:
    page = PAGES[DOCS / "reference" / "cli.md"]
    assert "```{include} commands.txt\n```" in page
    named = set(re.findall(r"^### sagas (\w+)", PAGES[DOCS / "reference" / "commands.txt"], re.MULTILINE))
    summaries = json.loads(GENERATED.command_summaries())
    assert {name for name, one in summaries.items() if not one["hidden"]} == named, WRITE


def test_what_a_saga_costs_is_the_same_on_every_page() -> None:
    pages = {name: PAGES[DOCS / name] for name in ("concepts/cost-model.md", "operations/deploying.md")}
    compared: Any = importlib.import_module("comparison")
    ours = compared.OURS[compared.ROWS.index("USD per million instances of five steps")]
    idle = compared.OURS[compared.ROWS.index("price while idle")]
    figures = re.match(r"([\d.]+), chained ([\d.]+) ", ours)
    assert figures is not None
    told = re.search(r"USD a million, by the price list \| ([\d.]+) \| ([\d.]+) \|", pages["operations/deploying.md"])
    assert told is not None
    assert figures.groups() == told.groups()
    assert f"| a function per step | {figures[1]} |" in pages["concepts/cost-model.md"]
    assert f"take a third less, {figures[2]}:" in pages["concepts/cost-model.md"]
    assert 0.6 < float(figures[2]) / float(figures[1]) < 0.72
    monthly = re.search(r"\*\*together\*\* \| \| \*\*([\d.]+)\*\*", pages["operations/deploying.md"])
    assert monthly is not None
    assert f" {monthly[1]} a month" in idle


def test_the_page_of_the_api_lists_the_inputs_and_answers_of_a_call() -> None:
    page = PAGES[DOCS / "reference" / "http-api.md"]
    resolve = page.partition("/resolve\n")[2].partition("\n## ")[0]
    assert "| body `reason` | text of up to 4,000 characters | required |" in resolve
    assert "Answers 200 with [Saga](#saga); or 404, 409, 413." in resolve
    assert "| query `limit` | whole number, 1 to 100 | Default: `20`. |" in page
    assert "[`forbidden`](errors.md#forbidden)" in page


def test_every_option_of_a_service_and_of_a_function_is_described() -> None:
    """The page of the constructs comes from these docstrings."""
    options: Any = importlib.import_module("sagas.cdk.options.service_options")
    for described, kind in (
        (options.SagaServiceProps, options.ServiceOptions),
        (options.FunctionOptions, options.FunctionOptions),
    ):
        names = {field.name for field in fields(kind)} - {"service"}
        assert {name for name in names if f"\n    {name}: " not in inspect.cleandoc(described.__doc__)} == set()


def test_a_client_of_a_step_is_one_that_boto3_has() -> None:
    session: Any = boto3.Session()
    there: set[str] = set(session.get_available_services())
    asked = {one for text in PAGES.values() for one in re.findall(r"ctx\.client\(\"(.*?)\"\)", text)}
    assert asked
    assert asked <= there


def test_every_test_that_a_page_names_is_there() -> None:
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    whole = "\n".join(files.values())
    others = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
    for page, text in (PAGES | {path: path.read_text() for path in others}).items():
        for path in re.findall(r"`(tests/[\w/.-]+)`", text):
            assert (ROOT / path).exists() or page.parent.name == "tutorial", (page.name, path)
        for file, name in re.findall(r"\b(test_\w+\.py)(?:::(\w+))?", text):
            assert file in files or page.parent.name == "tutorial", (page.name, file)
            assert not name or re.search(rf"\b{name}\b", files[file]), (page.name, file, name)
        for name in re.findall(r"`(test_\w+)`", text):
            assert re.search(rf"\b{name}\b", whole), (page.name, name)


def test_every_extra_is_on_the_page_of_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| `(\w+)` \|", PAGES[DOCS / "reference" / "installation.md"], re.MULTILINE)
    assert set(rows) == set(project["optional-dependencies"]) - {"docs", "dev"}
