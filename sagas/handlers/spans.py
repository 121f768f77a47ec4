"""A span of its own in the trace for each step that shares its invocation with others.

X-Ray's daemon takes finished subsegments as datagrams; its SDK, which would do the same, is in maintenance.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from sagas.engine.clock import SystemClock
from sagas.messaging.message import Message

_HEADER = b'{"format":"json","version":1}\n'
_ADDRESS = "AWS_XRAY_DAEMON_ADDRESS"


@contextmanager
def span(message: Message, trace: Mapping[str, str]) -> Iterator[None]:
    """Draw what is done meanwhile as a subsegment named after the step; nothing where the trace is not sampled.

    Args:
        message: names the step, or the step whose undo it is.
        trace: the fields of the invocation's trace header: ``Root``, ``Parent``, ``Sampled``.
    """
    address = os.environ.get(_ADDRESS, "")
    if not address or trace.get("Sampled") != "1" or not trace.get("Root") or not trace.get("Parent"):
        yield
        return
    clock = SystemClock()
    began = clock.now()
    try:
        yield
    finally:
        document = {
            "name": f"undo of {message.step}" if message.undo else message.step,
            "id": secrets.token_hex(8),
            "trace_id": trace["Root"],
            "parent_id": trace["Parent"],
            "type": "subsegment",
            "start_time": began,
            "end_time": clock.now(),
            "annotations": {"saga": message.saga, "saga_id": message.saga_id, "step": message.step},
        }
        host, _, port = address.rpartition(":")
        # A datagram that gets lost is missed in a picture, and nowhere else.
        with suppress(OSError, ValueError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
            daemon.sendto(_HEADER + json.dumps(document).encode(), (host, int(port)))
