"""The CDK app: ``python -m infra.app`` writes the templates to ``CDK_OUTDIR``, by default ``cdk.out``."""

from __future__ import annotations

import os

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.stack import ReferenceStack


def build_app(outdir: str | None = None) -> App:
    """Create the app with its only stack. cdk-nag checks the stack when it is synthesized.

    Args:
        outdir: the directory for the templates. Default: ``CDK_OUTDIR``, which the CDK CLI sets, or ``cdk.out``.
    """
    app = App(outdir=outdir or os.environ.get("CDK_OUTDIR") or "cdk.out")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    ReferenceStack(app, "Sagas")
    return app


if __name__ == "__main__":
    build_app().synth()
