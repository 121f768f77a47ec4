"""boto3 clients of an endpoint, with credentials that are good for nothing else."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config


class Clients:
    """Makes clients of one endpoint.

    Args:
        endpoint_url: of an emulator of AWS.
        region: of all clients.
    """

    def __init__(self, endpoint_url: str, region: str) -> None:
        self.endpoint_url = endpoint_url
        self.region = region
        self._session: Any = boto3.Session(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - good for emulators only
            region_name=region,
        )
        self._config = Config(
            connect_timeout=2, read_timeout=30, retries={"total_max_attempts": 2}, s3={"addressing_style": "path"}
        )

    def client(self, service: str) -> Any:
        """Return a new client of a service."""
        return self._session.client(service, endpoint_url=self.endpoint_url, config=self._config)
