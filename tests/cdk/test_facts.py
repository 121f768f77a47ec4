"""A fact stands on one page: the others link to it. Exceptions have a reason.

Only pages written by hand count. Those in ``contributing`` explain the numbers of the others, so they repeat them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from sagas import AutoDisable, CircuitBreaker, OrphanSweep
from sagas.authoring.definition.definition import OPTION_NAMES
from sagas.cdk.options.function_options import FunctionOptions
from sagas.cdk.options.service_options import ServiceOptions

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "changelog.md" and path.parent.name != "contributing"
}
_OPTIONS = {
    field.name
    for kind in (ServiceOptions, FunctionOptions, AutoDisable, CircuitBreaker, OrphanSweep)
    for field in fields(kind)
} | {*OPTION_NAMES}
_NOT_TEXT = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS = {word: str(number) for number, word in enumerate(_WORDS, 2)} | {"fifteen": "15", "twenty": "20"}
_UNITS = "ms|seconds|minutes|hours|days|months|KB|MB|GB|USD|characters|resources|attempts|retries|sagas|messages"
_NUMBER = re.compile(rf"(?<![\w.$/-])(\d[\d,.]*|{'|'.join(_DIGITS)})\s+({_UNITS})\b")
_EXPLAINED = re.compile(r"(?:(?<=\n\n)|^ *[-|] )\**`(\w+)(?:=[^`]*)?`", re.MULTILINE)
"""An option at the beginning of an entry, a row or a paragraph."""
_REASONS = {
    "2 seconds": "how exact a wait is, how often a client polls, and four others",
    "3 days": "the longest `settle`, and examples of waits",
    "4 characters": "the start of an id, and the shortest text that is redacted in an error",
    "5 minutes": "a key's replacement, what alarms cover, how soon waits end",
    "5 retries": "the default, and what a limit assumes",
    "5 seconds": "how old a cancel is, how soon a pause holds, how long a message is hidden",
    "6 hours": "the rounds of the sweep, and the last interval of the supervisor",
    "10 minutes": "the title of a page, and what an alarm covers",
    "14 days": "SQS's retention, which limits authors and operators; and how long Lambda keeps a snapshot",
    "15 minutes": "SQS's longest delay, so several things take as long; and what alarms wait",
    "30 seconds": "a step's timeout, a queue's, and four others",
    "50 ms": "what the tables of costs and of loads take a step to last",
    "600 MB": "the README says it before the download",
    "retry": "a policy, and a command",
    "shards": "when to set it, and what a load needs",
}


def _facts(text: str) -> Iterator[str]:
    text = _NOT_TEXT.sub("", text)
    yield from (f"{_DIGITS.get(match[1], match[1])} {match[2]}" for match in _NUMBER.finditer(text))
    yield from (match[1] for match in _EXPLAINED.finditer(text) if match[1] in _OPTIONS)


def test_no_fact_stands_on_two_pages() -> None:
    pages = defaultdict[str, set[str]](set)
    for name, text in PAGES.items():
        for fact in _facts(text) if "*Generated " not in text else ():
            pages[fact].add(name)
    twice = {fact: sorted(names) for fact, names in pages.items() if len(names) > 1}
    assert {fact: names for fact, names in twice.items() if fact not in _REASONS} == {}
    assert sorted(_REASONS.keys() - twice.keys()) == [], "these reasons are not needed"
