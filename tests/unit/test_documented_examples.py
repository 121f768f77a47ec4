"""Each example of a service on a page is synthesized, and compared with what its page promises."""

from __future__ import annotations

import ast
import re
from textwrap import dedent

import pytest

from sagas import cdk
from tests.cdk.test_facts import PAGES

_BLOCK = re.compile(
    r"^ *```python\n(?P<visible>.*?)^ *```$|<!--- invisible-code-block: python\n(?P<hidden>.*?)--->",
    re.DOTALL | re.MULTILINE,
)
_FENCED = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_CLASSES = [name for name in cdk.__all__ if name[0].isupper() and name != "SagaService"]
_OPTIONS = re.compile(rf"\b({'|'.join(_CLASSES)})[(.]")
_METHODS = {name for name in vars(cdk.SagaService) if not name.startswith("_")}
_COMPARES = {"changes", "may"}


def _calls(code: str) -> set[str]:
    """The names of the functions, classes and methods of a service that code calls."""
    names = set[str]()
    for node in ast.walk(ast.parse(dedent(code))):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="service"), attr=name)) if name in _METHODS:
                names.add(f"service.{name}")
            case _:
                pass
    return names


def _examples(page: str) -> list[tuple[str, str]]:
    """The blocks about a service, each with the hidden blocks that follow until the next visible one."""
    found: list[tuple[str, str]] = []
    after = None
    for block in _BLOCK.finditer(page):
        if block["hidden"] is not None:
            if after is not None:
                found[after] = (found[after][0], found[after][1] + dedent(block["hidden"]))
        elif any(name in cdk.__all__ or name.startswith("service.") for name in _calls(block["visible"])):
            after = len(found)
            found.append((dedent(block["visible"]), ""))
        else:
            after = None
    return found


def _named(page: str) -> list[str]:
    """Options with their values in the text of a page. One with ``...`` is left to the reader."""
    spans = re.findall(r"`([^`\n]+)`", _FENCED.sub("", page))
    return [span for span in spans if _OPTIONS.search(span) and "..." not in span and "=)" not in span]


_ABOUT = {name: page for name, page in PAGES.items() if _examples(page) or _named(page)}


def test_the_pages_of_the_known_faults_have_examples() -> None:
    pages = {"build/rates.md", "reference/limits.md", "operations/deploying.md", "operations/hardening.md"}
    assert {f"docs/{page}" for page in pages} <= _ABOUT.keys()


@pytest.mark.parametrize("name", _ABOUT)
def test_an_example_is_compared_with_what_its_page_promises(name: str) -> None:
    for example, hidden in _examples(PAGES[name]):
        assert _calls(hidden) & _COMPARES, f"no invisible block compares this example with its page:\n{example}"


@pytest.mark.parametrize("name", _ABOUT)
def test_an_option_in_the_text_is_compared_with_what_its_page_promises(name: str) -> None:
    blocks = [block["visible"] or block["hidden"] for block in _BLOCK.finditer(PAGES[name])]
    compared = re.sub(r"\s+", " ", " ".join(blocks))
    for option in _named(PAGES[name]):
        # Only its arguments: in the text, the option of a service may stand within its call.
        inner = re.sub(r"^SagaService\((.*)\)$", r"\1", option)
        assert inner in compared, f"no block of the page has {option}"
