"""What the supervisor may do with the objects it sweeps follows from the declared action."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_s3 as s3

from sagas.cdk import SagaService
from sagas.cdk.compute import permissions
from sagas.engine.sweep import sweep_pages
from sagas.errors import DefinitionError
from tests.cdk.rendered import as_list, render, shown, statements
from tests.cdk.saga_classes import SWEEPING, Trip
from tests.cdk.templates import BUCKETS


def granted(saga: type[Any]) -> set[tuple[str, str]]:
    """(action, resource) pairs of the functions that sweep on the buckets."""

    def build(stack: Stack) -> None:
        zips, attic = (s3.Bucket.from_bucket_name(stack, variable, name) for variable, name in BUCKETS.items())
        service = SagaService(stack, "Shop", sagas=[saga], environment=BUCKETS)
        service.allow_sweep(saga, zips, archive_to=attic if SWEEPING[saga] else None)

    template = render(build)
    supervisor, bulk = (
        {
            (action, shown(resource).rpartition(":")[2])
            for role, one in statements(template)
            if function in role
            for action in as_list(one["Action"])
            for resource in as_list(one["Resource"])
            if action.startswith("s3:") and "zips-of-mine" in shown(resource)
        }
        for function in ("Supervisor", "Bulk")
    )
    assert supervisor == bulk
    return supervisor


REPORTED, DELETED, ARCHIVED, ELSEWHERE_ARCHIVED, TAGGED = SWEEPING
LIST = {("s3:ListBucket", "zips-of-mine")}
DELETE = {(action, "zips-of-mine/zips/*") for action in ("s3:GetObject", "s3:DeleteObject")}
WRITE = ("PutObject", "PutObjectTagging", "AbortMultipartUpload")
TAGS = ("s3:GetObjectTagging", "zips-of-mine/zips/*")
ARCHIVE = {TAGS, *((f"s3:{action}", "zips-of-mine/archive/zips/*") for action in WRITE)}
ELSEWHERE = {TAGS, *((f"s3:{action}", "attic-of-zips-of-mine/archive/zips/*") for action in WRITE)}


@pytest.mark.parametrize(
    ("saga", "expected"),
    [
        (REPORTED, LIST),
        (DELETED, LIST | DELETE),
        (ARCHIVED, LIST | DELETE | ARCHIVE),
        (ELSEWHERE_ARCHIVED, LIST | DELETE | ELSEWHERE),
        (TAGGED, LIST),
    ],
    ids=["report", "delete", "archive", "elsewhere", "on_orphans"],
)
def test_grants(saga: type[Any], expected: set[tuple[str, str]]) -> None:
    assert granted(saga) == expected


def test_it_is_archived_where_it_may_be() -> None:
    assert permissions.ARCHIVE == sweep_pages.ARCHIVE


def test_a_saga_that_owns_no_objects() -> None:
    stack = Stack(App(), "Test")
    service = SagaService(stack, "Shop", sagas=[Trip])
    with pytest.raises(DefinitionError, match="saga type 'trip' has no orphans= policy"):
        service.allow_sweep(Trip, s3.Bucket(stack, "Zips"))


@pytest.mark.parametrize(("saga", "given"), [(ARCHIVED, True), (ELSEWHERE_ARCHIVED, False)])
def test_the_archive_is_the_one_that_is_declared(saga: type[Any], given: bool) -> None:
    stack = Stack(App(), "Test")
    service = SagaService(stack, "Shop", sagas=[saga])
    zips, attic = s3.Bucket(stack, "Zips"), s3.Bucket(stack, "Attic")
    with pytest.raises(DefinitionError, match="archive_bucket_env" if given else "ATTIC_BUCKET"):
        service.allow_sweep(saga, zips, archive_to=attic if given else None)
