"""Prints a saga with its children and their children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sagas.cli.output import plain
from sagas.cli.tables import coloured

if TYPE_CHECKING:
    from rich.tree import Tree

    from sagas.client import AuditEntry, SagaClient, SagaView
    from sagas.client.read.families import Family


def family_with(client: SagaClient, saga: SagaView) -> Family:
    from sagas.client.read.families import childless_in, family_of

    return family_of(client.list, saga, childless=childless_in(client.types()))


def tree_of(family: Family, tree: Tree | None = None) -> Tree:
    """Return a family as a tree. A line has the place in the parent, the type, the label, the id and the status of a
    saga."""
    from rich.text import Text
    from rich.tree import Tree

    saga = family["saga"]
    parent = saga.get("parent")
    place = f"{parent['step']}[{parent['position']}] " if parent is not None and tree is not None else ""
    why = f"  {plain(saga['attention']['reason'])}" if saga["attention"] else ""
    label = f"{plain(saga['label'])} " if saga["label"] else ""
    line = Text.assemble(f"{place}{saga['type']} {label}{saga['saga_id']} ", coloured(saga["status"]), why)
    branch = Tree(line) if tree is None else tree.add(line)
    for child in family["children"]:
        tree_of(child, branch)
    return branch


def trail_of(client: SagaClient, family: Family) -> Iterator[AuditEntry]:
    """Yield the entries of all audit trails of a family in the order of time."""
    yield from sorted(_entries(client, family), key=lambda entry: (entry["at"], entry["saga_id"], entry["seq"]))


def _entries(client: SagaClient, family: Family) -> Iterator[AuditEntry]:
    saga = family["saga"]
    yield from client.audit(saga["type"], saga["saga_id"])
    for child in family["children"]:
        yield from _entries(client, child)
