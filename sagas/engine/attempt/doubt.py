"""Decides whether an exception leaves the outcome of a step in doubt: it says nothing about the effect (rule 11).

Clients are known by the names of their packages and classes, so none is imported. This module is imported only after a
failure.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable
from types import FrameType
from typing import Any, cast

from msgspec import Struct

from sagas.errors import NotYet, PermanentError, WrongResult, leaves


class Client(Struct, frozen=True):
    """The exceptions of a client library, by the names of their classes. Subclasses count as well.

    Args:
        lost: the request may have arrived, and its answer did not. The outcome is in doubt.
        unsent: the client has not connected, so the request did not arrive.
    """

    lost: tuple[str, ...]
    unsent: tuple[str, ...] = ()


_HTTPX = Client(
    lost=("ReadTimeout", "ReadError", "WriteTimeout", "WriteError", "RemoteProtocolError"),
    unsent=("ConnectTimeout", "ConnectError", "PoolTimeout", "ProxyError"),
)
CLIENTS: dict[str, Client] = {
    "builtins": Client(("TimeoutError", "ConnectionError"), ("ConnectionRefusedError",)),
    "asyncio": Client(("IncompleteReadError",)),
    "http": Client(("IncompleteRead",)),
    "smtplib": Client(("SMTPServerDisconnected",), ("SMTPConnectError",)),
    "ssl": Client(("SSLEOFError", "SSLZeroReturnError"), ("SSLCertVerificationError",)),
    "subprocess": Client(("TimeoutExpired",)),
    "urllib": Client(("ContentTooShortError",)),
    "botocore": Client(
        ("ReadTimeoutError", "ConnectionClosedError", "IncompleteReadError", "ResponseStreamingError"),
        ("EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"),
    ),
    "urllib3": Client(
        ("ReadTimeoutError", "ProtocolError", "IncompleteRead"),
        ("ConnectTimeoutError", "NewConnectionError", "ProxyError"),
    ),
    "requests": Client(("ReadTimeout", "ChunkedEncodingError"), ("ConnectTimeout", "ProxyError")),
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "httpcore": _HTTPX,
    "httpcore2": _HTTPX,
    "aiohttp": Client(
        ("ClientConnectionError", "ClientPayloadError"),
        ("ClientConnectorError", "ConnectionTimeoutError", "ServerFingerprintMismatch"),
    ),
    "sagas": Client(("TimedOut", "WrongResult", "Ambiguous")),
}
"""The exceptions that decide, by the package of their class."""
_CONNECTING = frozenset(
    {
        ("socket", "create_connection"),
        ("ssl", "do_handshake"),
        ("http.client", "connect"),
        ("asyncio.base_events", "create_connection"),
        ("asyncio.unix_events", "create_unix_connection"),
        ("aiohttp.connector", "connect"),
    }
)
"""Functions that connect, by module. An error that was raised in one says that no request was sent."""
_LEAVING = frozenset({"__exit__", "__aexit__"})
"""Methods of context managers that may raise another error. ``asyncio.timeout`` of Python 3.11.2 names no cause."""


def in_doubt(error: BaseException, others: Collection[type[BaseException]] = ()) -> bool:
    """Whether an exception leaves the outcome in doubt. It and its causes are asked, the outermost first, and the first
    that is known decides. A group is in doubt if one of its errors is. ``others``: the types that the author names."""
    seen = set[int]()
    remaining: list[BaseException | None] = [error]
    while remaining:
        cause = remaining.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        errors = leaves(cause)
        verdicts = [_own_verdict(each, others) for each in errors]
        if True in verdicts:
            return True
        if None in verdicts:
            remaining.append(_cause(cause))
        remaining += [_cause(each) for each, verdict in zip(errors, verdicts, strict=True) if verdict is None]
    return False


def _own_verdict(error: BaseException, others: Collection[type[BaseException]]) -> bool | None:
    """Return what an exception says by itself; ``None`` if it is not known. Of its class and the bases, the most
    specific one that is known decides."""
    if isinstance(error, PermanentError | NotYet) and not isinstance(error, WrongResult):
        return False
    for type_ in type(error).__mro__:
        if type_ in others:
            return True
        client = CLIENTS.get(str(type_.__module__).partition(".")[0])
        if client is not None and type_.__name__ in client.unsent:
            return False
        if client is not None and type_.__name__ in client.lost:
            return not _connecting(error)
    return None


def _cause(error: BaseException) -> BaseException | None:
    """Return the exception behind another one. Some clients only pass it to the constructor."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    arguments: Iterable[object] = cast("Any", BaseException.args).__get__(error)  # a subclass may hide it
    wrapped = (argument for argument in arguments if isinstance(argument, BaseException))
    return next(wrapped, None) if error.__context__ is None else error.__context__


def _connecting(error: BaseException) -> bool:
    """Whether the error was raised while its client connected, or wraps one that was."""
    wrapped: BaseException | None = error
    seen = set[int]()
    while wrapped is not None and id(wrapped) not in seen:
        seen.add(id(wrapped))
        if not _CONNECTING.isdisjoint((str(f.f_globals.get("__name__")), f.f_code.co_name) for f in _frames(wrapped)):
            return True
        wrapped = _wrapped(wrapped)
    return False


def _wrapped(error: BaseException) -> BaseException | None:
    """Return the error in whose place another one was raised, by the code that caught it or by a context manager of
    that code. What was handled further out, such as the error of a call that was tried before, is not that."""
    cause = _cause(error)
    if cause is None or cause is not error.__context__ or cause is error.__cause__:
        return cause
    calls = _frames(error)
    if calls and calls[-1].f_code.co_name in _LEAVING:
        calls.pop()
    caught_in = _frames(cause)[:1]
    return cause if calls[-1:] == caught_in else None


def _frames(error: BaseException) -> list[FrameType]:
    """Return the calls through which an error went, from where it was caught to where it was raised."""
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
