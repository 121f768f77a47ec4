"""The check of words: patterns that read translated, over texts and names. ``make style`` runs it.

It reads docstrings, comments, strings that contain a sentence, pages, and identifiers. The file
``tests/words.toml`` lists exceptions: the place, and the reason.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("demo", "functions", "infra", "sagas")
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/build/*.md",
    "docs/compare/*.md",
    "docs/concepts/*.md",
    "docs/contributing/*.md",
    "docs/migrate/*.md",
    "docs/operations/*.md",
    "docs/reference/*.md",
    "docs/tutorial/*.md",
)
TEXTS = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"(?i)\b(told|tells?)\b": "publish, log, return, report or say",
    r"\bin vain\b": "say what did not come",
    r"\b(is|are|was) over\b": "has ended",
    r"\banew\b": "again",
    r"\bbeside\b": "next to, with, in addition to",
    r"\bwho (may|has|can|is)\b": "name the subject",
    r"(?<![Tt]here )\bis no (?!longer|more)": "is not a …",
    r"\bgoes? (off|on) by (it|them)sel": "name the subject",
    r"\ba queue a step\b|\ba page a saga\b": "per",
    r"\bby --": "with --",
    r"\bof which\b": "two sentences",
    r"\bnone of (ours|theirs)\b": "foreign",
    r"\blet alone\b": "two sentences",
    r"\bat work\b": "running",
    r"\bmeanwhile\b": "in the meantime",
    r"\blook(ed|s|ing)? after\b": "advance, recover",
    r"\bas it is by then\b": "say when",
    r"(?i)\b1 sagas\b": "1 saga",
}
NAMES = re.compile(r"(?:^|_)(told|known|wanted|shown|brought|beaten|parked)(?:$|_)", re.IGNORECASE)


def _sentences(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The texts of a file that people read, with their lines."""
    if path.suffix == ".md":
        without_code = re.sub(
            r"^```.*?^```|`[^`\n]*`", lambda code: "\n" * code[0].count("\n"), text, flags=re.M | re.S
        )
        yield from enumerate(without_code.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from ((node.lineno + place, line) for place, line in enumerate(node.value.splitlines()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _names(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and NAMES.search(token.string):
            yield token.start[0], token.string


def findings(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, match and advice for whatever a file says in words that the project does not use."""
    for line, sentence in _sentences(path, text):
        for pattern, advice in TEXTS.items():
            for match in re.finditer(pattern, sentence):
                yield line, match[0], advice
    if path.suffix == ".py":
        for line, name in _names(text):
            yield line, name, "a name is a noun or a verb phrase"


def main() -> int:
    """Print what is found and return 1, or return 0."""
    excepted = tomllib.loads((ROOT / "tests" / "words.toml").read_text())
    modules = [module for folder in FOLDERS for module in (ROOT / folder).rglob("*.py")]
    paths = [*(path for pattern in PAGES for path in ROOT.glob(pattern)), *(ROOT / "sagas").glob("*.py"), *modules]
    used, count = set[str](), 0
    for path in sorted(paths):
        place = str(path.relative_to(ROOT))
        for line, match, advice in findings(path, path.read_text()):
            key = f"{place}: {match}"
            if key in excepted:
                used.add(key)
                continue
            count += 1
            print(f"{place}:{line}: {match!r}; write: {advice}")
    for key in excepted.keys() - used:
        count += 1
        print(f"tests/words.toml: {key!r} is not needed")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
