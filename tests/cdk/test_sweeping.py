"""What the supervisor may do with the objects it sweeps follows from the declared action."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas import Context, OrphanSweep, S3Object
from sagas.cdk import SagaService, permissions
from sagas.engine import sweep
from sagas.errors import DefinitionError
from tests.cdk.test_permissions import as_list, shown

Action = Literal["delete", "archive", "report"]


def sweeping(action: Action) -> type[Any]:
    """A saga class whose orphans are dealt with that way."""
    orphans = OrphanSweep(bucket_env="ZIPS_BUCKET", prefix="zips/", action=action)

    class Swept(CreateZip, name=f"swept-{action}", orphans=orphans):
        """The same steps."""

    return Swept


class Tagging(
    CreateZip, name="tagging", orphans=OrphanSweep(bucket_env="ZIPS_BUCKET", prefix="zips/", action="report")
):
    """Deals with them itself."""

    def on_orphans(self, orphans: Sequence[S3Object], ctx: Context) -> None:
        """Do nothing here."""


def granted(saga: type[Any], directory: Path) -> set[tuple[str, str]]:
    """(action, resource) pairs of the supervisor on the swept bucket; cdk-nag and cfn-lint find nothing in it."""
    app = App(outdir=str(directory))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    stack = Stack(app, "Sweeping")
    bucket = s3.Bucket.from_bucket_name(stack, "Zips", "zips-of-mine")
    service = SagaService(stack, "Shop", sagas=[saga], environment={"ZIPS_BUCKET": bucket.bucket_name})
    service.allow_sweep(saga, bucket)
    app.synth()
    path = directory / "Sweeping.template.json"
    linted = subprocess.run(
        [str(Path(sys.executable).parent / "cfn-lint"), str(path)], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout
    policies = [
        one["Properties"] for one in json.loads(path.read_text())["Resources"].values() if "Policy" in one["Type"]
    ]
    own = [one for one in policies if "Supervisor" in json.dumps(one.get("Roles", ""))]
    statements = [statement for one in own for statement in one["PolicyDocument"]["Statement"]]
    return {
        (action, shown(resource).rpartition(":")[2])
        for one in statements
        for action in as_list(one["Action"])
        for resource in as_list(one["Resource"])
        if action.startswith("s3:") and "zips-of-mine" in shown(resource)
    }


LIST = {("s3:ListBucket", "zips-of-mine")}
DELETE = {(action, "zips-of-mine/zips/*") for action in ("s3:GetObject", "s3:DeleteObject")}
ARCHIVE = {
    *(
        (f"s3:{action}", "zips-of-mine/archive/zips/*")
        for action in ("PutObject", "PutObjectTagging", "AbortMultipartUpload")
    ),
    ("s3:GetObjectTagging", "zips-of-mine/zips/*"),
}


@pytest.mark.parametrize(
    ("saga", "expected"),
    [
        (sweeping("report"), LIST),
        (sweeping("delete"), LIST | DELETE),
        (sweeping("archive"), LIST | DELETE | ARCHIVE),
        (Tagging, LIST),
    ],
    ids=["report", "delete", "archive", "on_orphans"],
)
def test_grants(saga: type[Any], expected: set[tuple[str, str]], tmp_path: Path) -> None:
    assert granted(saga, tmp_path) == expected


def test_it_is_archived_where_it_may_be() -> None:
    assert permissions.ARCHIVE == sweep.ARCHIVE


def test_a_saga_that_owns_no_objects() -> None:
    stack = Stack(App(), "Test")
    service = SagaService(stack, "Shop", sagas=[Checkout])
    with pytest.raises(DefinitionError, match="saga checkout declares no orphans"):
        service.allow_sweep(Checkout, s3.Bucket(stack, "Zips"))
