"""The AWS CDK constructs: :class:`SagaService` turns saga classes into functions, queues, tables and an API."""

from sagas.node import use_bundled_node

use_bundled_node()

from sagas.cdk.access.api import shape_gateway_answers  # noqa: E402 - jsii reads JSII_NODE when it is imported
from sagas.cdk.options.function_options import FunctionOptions, Network  # noqa: E402 - as above
from sagas.cdk.options.service_options import PrivateEndpoint, SagaServiceProps, Throttling  # noqa: E402 - as above
from sagas.cdk.options.values import (  # noqa: E402 - as above
    AccessLogs,
    Archive,
    Deployment,
    OpenTelemetry,
    SagaEvents,
    TableOptions,
)
from sagas.cdk.service import SagaService  # noqa: E402 - as above

__all__ = [
    "AccessLogs",
    "Archive",
    "Deployment",
    "FunctionOptions",
    "Network",
    "OpenTelemetry",
    "PrivateEndpoint",
    "SagaEvents",
    "SagaService",
    "SagaServiceProps",
    "TableOptions",
    "Throttling",
    "shape_gateway_answers",
]
