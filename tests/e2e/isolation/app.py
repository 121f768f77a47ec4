"""A CDK app whose sagas have one function each for all their steps."""

from __future__ import annotations

from sagas.cdk import SagaService
from tests.e2e.isolation.sagas import Mortal, Relay

from aws_cdk import App, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    SagaService(Stack(app, "Shared"), "Sagas", sagas=[Relay, Mortal], isolation="saga")
    app.synth()


if __name__ == "__main__":
    main()
