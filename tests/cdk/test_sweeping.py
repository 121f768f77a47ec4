"""What the supervisor may do with the objects it sweeps follows from the declared action."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_s3 as s3

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas import Context, OrphanSweep, S3Object
from sagas.authoring.saga import definition_of
from sagas.cdk import SagaService, permissions
from sagas.engine import sweep_pages
from sagas.errors import DefinitionError
from tests.cdk.rendered import of_type, render
from tests.cdk.test_permissions import as_list, shown

Action = Literal["delete", "archive", "report"]


def sweeping(action: Action, archive: str | None = None) -> type[Any]:
    """A saga class whose orphans are dealt with that way."""
    orphans = OrphanSweep(bucket_env="ZIPS_BUCKET", prefix="zips/", action=action, archive_bucket_env=archive)

    name = f"swept-{action}" if archive is None else f"swept-{action}-elsewhere"

    class Swept(CreateZip, name=name, orphans=orphans):
        """The same steps."""

    return Swept


class Tagging(
    CreateZip, name="tagging", orphans=OrphanSweep(bucket_env="ZIPS_BUCKET", prefix="zips/", action="report")
):
    """Deals with them itself."""

    def on_orphans(self, orphans: Sequence[S3Object], ctx: Context) -> None:
        """Do nothing here."""


BUCKETS = {"ZIPS_BUCKET": "zips-of-mine", "ATTIC_BUCKET": "attic-of-zips-of-mine"}


def sweeper(stack: Stack, *sagas: type[Any]) -> None:
    """A service of these sagas that may sweep what they declare."""
    zips, attic = (s3.Bucket.from_bucket_name(stack, variable, name) for variable, name in BUCKETS.items())
    service = SagaService(stack, "Shop", sagas=sagas, environment=BUCKETS)
    for saga in sagas:
        policy = definition_of(saga).orphans
        elsewhere = policy is not None and policy.archive_bucket_env is not None
        service.allow_sweep(saga, zips, archive_to=attic if elsewhere else None)


def granted(saga: type[Any]) -> set[tuple[str, str]]:
    """(action, resource) pairs of the functions that sweep on the buckets."""
    policies = of_type(render(lambda stack: sweeper(stack, saga)), "AWS::IAM::Policy")
    supervisor, bulk = (
        {
            (action, shown(resource).rpartition(":")[2])
            for policy in policies
            if function in json.dumps(policy.get("Roles", ""))
            for one in policy["PolicyDocument"]["Statement"]
            for action in as_list(one["Action"])
            for resource in as_list(one["Resource"])
            if action.startswith("s3:") and "zips-of-mine" in shown(resource)
        }
        for function in ("Supervisor", "Bulk")
    )
    assert supervisor == bulk
    return supervisor


LIST = {("s3:ListBucket", "zips-of-mine")}
DELETE = {(action, "zips-of-mine/zips/*") for action in ("s3:GetObject", "s3:DeleteObject")}
WRITE = ("PutObject", "PutObjectTagging", "AbortMultipartUpload")
TAGS = ("s3:GetObjectTagging", "zips-of-mine/zips/*")
ARCHIVE = {TAGS, *((f"s3:{action}", "zips-of-mine/archive/zips/*") for action in WRITE)}
ELSEWHERE = {TAGS, *((f"s3:{action}", "attic-of-zips-of-mine/archive/zips/*") for action in WRITE)}


@pytest.mark.parametrize(
    ("saga", "expected"),
    [
        (sweeping("report"), LIST),
        (sweeping("delete"), LIST | DELETE),
        (sweeping("archive"), LIST | DELETE | ARCHIVE),
        (sweeping("archive", "ATTIC_BUCKET"), LIST | DELETE | ELSEWHERE),
        (Tagging, LIST),
    ],
    ids=["report", "delete", "archive", "elsewhere", "on_orphans"],
)
def test_grants(saga: type[Any], expected: set[tuple[str, str]]) -> None:
    assert granted(saga) == expected


def test_it_is_archived_where_it_may_be() -> None:
    assert permissions.ARCHIVE == sweep_pages.ARCHIVE


def test_a_saga_that_owns_no_objects() -> None:
    stack = Stack(App(), "Test")
    service = SagaService(stack, "Shop", sagas=[Checkout])
    with pytest.raises(DefinitionError, match="saga checkout declares no orphans"):
        service.allow_sweep(Checkout, s3.Bucket(stack, "Zips"))


@pytest.mark.parametrize(("archive", "given"), [(None, True), ("ATTIC_BUCKET", False)])
def test_the_archive_is_the_one_that_is_declared(archive: str | None, given: bool) -> None:
    stack, saga = Stack(App(), "Test"), sweeping("archive", archive)
    service = SagaService(stack, "Shop", sagas=[saga])
    zips, attic = s3.Bucket(stack, "Zips"), s3.Bucket(stack, "Attic")
    with pytest.raises(DefinitionError, match="archive_bucket_env" if given else "ATTIC_BUCKET"):
        service.allow_sweep(saga, zips, archive_to=attic if given else None)
