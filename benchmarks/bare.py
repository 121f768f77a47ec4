"""Bare botocore: the requests that one of our steps made, made again by default clients with ready-made parameters."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import boto3
import botocore


@lru_cache
def client(service: str) -> Any:
    """Return a client as boto3 makes it."""
    return cast("Any", boto3).client(service)


def handler(event: dict[str, Any], context: Any) -> None:
    """Make the requests that the event names."""
    for request in event["requests"]:
        method = cast("Any", botocore).xform_name(request["operation"])
        getattr(client(request["service"]), method)(**request["parameters"])
