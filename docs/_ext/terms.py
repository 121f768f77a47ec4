"""Links the first use of each term of the glossary in a page's text to its entry."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

_ELSEWHERE = ("glossary", "changelog", "index", "reference/", "compare/", "migrate/")
"""Pages that define terms, list names, or use the words of other products."""
_NOT_WITHIN = (nodes.reference, nodes.literal, nodes.title, nodes.literal_block)


def _link(app: Sphinx, page: str, match: re.Match[str], entry: tuple[str, str]) -> nodes.reference:
    address = f"{app.builder.get_relative_uri(page, entry[0])}#{entry[1]}"
    return nodes.reference(match[0], match[0], internal=True, refuri=address)


def link(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Link the terms of one page, which is complete otherwise."""
    if page.startswith(_ELSEWHERE):
        return
    objects = app.env.domains["std"].get_objects()
    entries = {name.lower(): (source, anchor) for name, _, kind, source, anchor, _ in objects if kind == "term"}
    linked = {reference.get("refuri", "").partition("#")[2] for reference in tree.findall(nodes.reference)}
    for term in sorted(entries, key=len, reverse=True):
        if entries[term][1] in linked:
            continue
        pattern = re.compile(rf"\b{re.escape(term)}s?\b", re.IGNORECASE)
        for text in [text for paragraph in tree.findall(nodes.paragraph) for text in paragraph.findall(nodes.Text)]:
            match = pattern.search(text)
            parent = text.parent
            if match is None or parent is None or any(isinstance(one, _NOT_WITHIN) for one in _above(text)):
                continue
            whole = str(text)
            parts = [nodes.Text(whole[: match.start()]), _link(app, page, match, entries[term])]
            parent.replace(text, [*parts, nodes.Text(whole[match.end() :])])
            break


def _above(node: nodes.Node) -> list[nodes.Node]:
    """The nodes that a node stands in."""
    above: list[nodes.Node] = []
    while (node := node.parent) is not None:
        above.append(node)
    return above


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call it for each page."""
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
