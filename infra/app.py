"""The CDK app: ``python -m infra.app`` writes the templates to ``cdk.out``, or where ``CDK_OUTDIR`` says."""

from __future__ import annotations

import os

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.stack import ReferenceStack


def build_app(outdir: str | None = None) -> App:
    """Make the app with its one stack, checked by cdk-nag when it is synthesized.

    Args:
        outdir: where the templates go; by default ``CDK_OUTDIR``, which the CDK CLI sets, or ``cdk.out``.
    """
    app = App(outdir=outdir or os.environ.get("CDK_OUTDIR") or "cdk.out")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    ReferenceStack(app, "Sagas")
    return app


if __name__ == "__main__":
    build_app().synth()
