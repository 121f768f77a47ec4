"""The stacks for an account, as an emulator takes them that checks permissions.

Without layers, alarms on expressions and the policies that refuse requests by plain HTTP. The API's path is there, and
its function has a name. There are users who have one of the service's rights each.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from infra.stack import ReferenceStack
from sagas.local.emulator.adapt import (
    with_gateway_responses,
    with_local_paths,
    with_named_functions,
    without_layers,
    without_metric_math,
)
from tests.e2e.account.app import main

from aws_cdk import aws_iam as iam  # isort: skip - sagas.cdk names the Node that jsii is to use

_INSIST_ON_TLS = ("AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy", "AWS::SQS::QueuePolicy")


def _add_users(stack: ReferenceStack) -> None:
    service = stack.service
    starter, reader, canceller, approver, operator, purger, auditor = (
        iam.User(stack, name, user_name=name)
        for name in ("starter", "reader", "canceller", "approver", "operator", "purger", "auditor")
    )
    service.grant_start(starter, Checkout)
    service.grant_read(reader, Checkout)
    service.grant_cancel(canceller, Checkout)
    service.grant_signal(approver, Checkout)
    service.grant_operate(operator, CreateZip)
    service.grant_purge(purger, CreateZip)
    service.grant_read(auditor)


def _without_tls(template: dict[str, Any]) -> dict[str, Any]:
    resources: dict[str, Any] = template["Resources"]
    gone = {name for name, resource in resources.items() if resource["Type"] in _INSIST_ON_TLS}
    kept = {name: resource for name, resource in resources.items() if name not in gone}
    for resource in kept.values():
        needed = resource.get("DependsOn", [])
        resource["DependsOn"] = [one for one in ([needed] if isinstance(needed, str) else needed) if one not in gone]
    return template | {"Resources": kept}


if __name__ == "__main__":
    main(_add_users)
    for path in Path(os.environ["CDK_OUTDIR"]).glob("*.template.json"):
        template = without_layers(with_local_paths(json.loads(path.read_text())))
        stack = path.name.partition(".")[0]
        template = with_named_functions(with_gateway_responses(without_metric_math(template)), stack)
        path.write_text(json.dumps(_without_tls(template)))
