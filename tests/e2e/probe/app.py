"""A stack with one queue and one function, to watch the local stack itself. No saga in it."""

from __future__ import annotations

import os
from pathlib import Path

from sagas.node import use_bundled_node

use_bundled_node()

from aws_cdk import App, CfnOutput, Duration, Stack  # noqa: E402 - jsii reads its Node when it is imported
from aws_cdk import aws_lambda as lambda_  # noqa: E402 - as above
from aws_cdk import aws_lambda_event_sources as sources  # noqa: E402 - as above
from aws_cdk import aws_sqs as sqs  # noqa: E402 - as above

__all__: list[str] = []


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Probe")
    queue = sqs.Queue(stack, "Queue", visibility_timeout=Duration.seconds(60))
    function = lambda_.Function(
        stack,
        "Function",
        code=lambda_.Code.from_asset(str(Path(__file__).parent / "code")),
        handler="probe.handler",
        runtime=lambda_.Runtime.PYTHON_3_13,
        timeout=Duration.seconds(int(os.environ.get("PROBE_TIMEOUT", "50"))),
    )
    function.add_event_source(sources.SqsEventSource(queue, batch_size=1))
    CfnOutput(stack, "QueueUrl", value=queue.queue_url)
    app.synth()


main()
