"""Creates boto3 clients of an endpoint, with credentials that are valid only there."""

from __future__ import annotations

from typing import Any

import boto3

from sagas.aws import EMULATOR, connect


class Clients:
    """Creates clients of one endpoint."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        self.endpoint_url = endpoint_url
        self.region = region
        self._session = boto3.Session(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - good for emulators only
            region_name=region,
        )

    def client(self, service: str) -> Any:
        return connect(service, EMULATOR, endpoint_url=self.endpoint_url, session=self._session)
