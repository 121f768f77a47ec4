"""Writes llms.txt, llms-full.txt and the Markdown of each page next to it.

Comments of the sources, such as code that only the tests run, are in none of them. Neither is the note for readers of
the sources that a linked page is on the site only.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

_LEFT_OUT = re.compile(r"<!--.*?-->\n*| \(on the site\)", re.DOTALL)
_INCLUDED = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)


def read(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Read a page without its comments and notes. Its lines keep their numbers."""
    source[0] = _LEFT_OUT.sub(lambda part: "\n" * part[0].count("\n"), source[0])


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the files, if the site was built."""
    if exception is not None or app.builder.name != "html":
        return
    target, source = Path(app.outdir), Path(app.srcdir)
    names = sorted(app.env.found_docs)
    lines = [f"# {app.config.project}", "", "> Sagas on AWS serverless, in Python.", ""]
    whole: list[str] = []
    for name in names:
        page = source / f"{name}.md"
        text = _INCLUDED.sub(lambda one, page=page: (page.parent / one[1]).read_text(), page.read_text())
        text = _LEFT_OUT.sub("", text)
        (target / f"{name}.md").write_text(text)
        lines.append(f"- [{app.env.titles[name].astext()}]({name}.md)")
        whole.append(f"<!-- {name}.md -->\n\n{text}")
    (target / "llms.txt").write_text("\n".join(lines) + "\n")
    (target / "llms-full.txt").write_text("\n\n".join(whole))


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call it when it is done."""
    app.connect("source-read", read)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
