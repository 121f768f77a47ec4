"""The CDK app of a service too large for one stack."""

from __future__ import annotations

import os

from sagas.cdk import FunctionOptions, SagaService
from tests.e2e.nested.sagas import Long, Short

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_s3 as s3  # isort: skip


def build_app(outdir: str | None = None) -> App:
    """Make the app; its templates go to ``outdir``, or where ``CDK_OUTDIR`` says."""
    app = App(outdir=outdir or os.environ.get("CDK_OUTDIR"))
    stack = Stack(app, "Large")
    notes = s3.Bucket(stack, "Notes", enforce_ssl=True)
    service = SagaService(
        stack,
        "Sagas",
        sagas=[Long, Short],
        environment={"NOTES_BUCKET": notes.bucket_name},
        functions={Short.look: FunctionOptions(memory_size=512)},
    )
    notes.grant_put(service.function(Short.look))
    CfnOutput(stack, "NotesBucket", value=notes.bucket_name)
    return app


if __name__ == "__main__":
    build_app().synth()
