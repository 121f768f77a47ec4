"""The stacks of the suite as an account gets them: named apart from the user's, and gone without a trace in the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

from infra.stack import ReferenceStack
from tests.e2e.trials.app import trials_stack

from aws_cdk import App, CfnResource, RemovalPolicy, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use

_PROTECTED = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")


def main(add_to: Callable[[ReferenceStack], None] = lambda stack: None) -> None:
    """Synthesize to ``CDK_OUTDIR``; ``add_to`` adds to the reference stack."""
    app = App(outdir=os.environ.get("CDK_OUTDIR"))
    reference = ReferenceStack(app, "SagasE2E")
    add_to(reference)
    for stack in (reference, trials_stack(app, "TrialsE2E")):
        _make_disposable(stack)
    app.synth()


def _make_disposable(stack: Stack) -> None:
    """Have everything deleted with the stack, tables and buckets too."""
    for construct in stack.node.find_all():
        if not CfnResource.is_cfn_resource(construct):
            continue
        resource = cast("CfnResource", construct)
        if resource.cfn_options.deletion_policy is not None:
            resource.apply_removal_policy(RemovalPolicy.DESTROY)
        if resource.cfn_resource_type in _PROTECTED:
            resource.add_property_override("DeletionProtectionEnabled", False)


if __name__ == "__main__":
    main()
