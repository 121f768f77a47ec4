"""The CDK app that deploys ``functions/``."""

# Import this before aws_cdk, which starts Node on import: it chooses the Node to start.
import sagas.cdk as constructs

__all__ = ["constructs"]
