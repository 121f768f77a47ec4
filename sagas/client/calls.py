"""What all calls of the client share: the way to the API, and to other services of AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sagas.client.endpoints import ServiceEndpoints
from sagas.client.transport import Transport

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


class Calls:
    """The base of the classes that :class:`sagas.client.SagaClient` is made of."""

    def __init__(self, transport: Transport, session: boto3.Session, endpoints: ServiceEndpoints) -> None:
        self._transport, self._session, self._endpoints = transport, session, endpoints

    def _connect(self, service: str, config: Config | None = None) -> Any:
        """Return a boto3 client. boto3 is loaded here, because a client that calls only the API does not need it."""
        from sagas.aws import CALLER, connect

        region, endpoint_url = self._transport.region, self._endpoints.endpoint_url
        return connect(service, config or CALLER, region=region, endpoint_url=endpoint_url, session=self._session)
