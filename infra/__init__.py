"""The CDK app that deploys ``functions/``."""

# Before aws_cdk, which starts Node as soon as it is imported; this chooses which.
import sagas.cdk as constructs

__all__ = ["constructs"]
