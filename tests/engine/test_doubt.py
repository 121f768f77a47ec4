"""Exceptions that say nothing about the effect leave the outcome in doubt: a client's timeout is not "it did not
happen". Each is raised by its client, against a server that does not answer as it should."""

from __future__ import annotations

import asyncio
import functools
import http.client
import importlib
import inspect
import itertools
import smtplib
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import aiohttp
import botocore.config
import botocore.session
import httpx
import httpx2
import pytest
import requests
import urllib3

from sagas import (
    CircuitBreaker,
    Context,
    DefinitionError,
    Exhausted,
    NotYet,
    PermanentError,
    Rejected,
    Retry,
    Saga,
    children,
    step,
    wait_for,
)
from sagas.authoring.definition.definition import definition_of
from sagas.engine.attempt.doubt import CLIENTS, in_doubt
from sagas.errors import Ambiguous, TimedOut, Unavailable, WrongResult
from sagas.testing import Outcome, run
from tests.support.bench import Bench, Make
from tests.support.sagas import LOG, ONCE, Order
from tests.support.servers import Kind, bad_server

pytestmark = pytest.mark.usefixtures("clean")
SECONDS = 0.25
OF_ALL = 1.0
"""Seconds for a whole call. On a busy machine, a call needs some of them before it has connected."""
Call = Callable[[str], Any]


@functools.cache
def sns(url: str) -> Any:
    config = botocore.config.Config(
        connect_timeout=SECONDS, read_timeout=SECONDS, retries={"total_max_attempts": 1}, proxies={}
    )
    session: Any = botocore.session.Session()
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    return session.create_client("sns", region_name="eu-central-1", endpoint_url=url, config=config, **keys)


def by_botocore(url: str) -> object:
    return sns(url).publish(TopicArn="arn:aws:sns:eu-central-1:123456789012:t", Message="paid")


def by_urllib3(url: str) -> object:
    with urllib3.PoolManager() as pool:
        return pool.request("POST", url, body=b"x", timeout=SECONDS, retries=False)


def by_urllib3_again(url: str) -> object:
    with urllib3.PoolManager() as pool:
        return pool.request("POST", url, body=b"x", timeout=SECONDS, retries=urllib3.Retry(1, allowed_methods=None))


def by_requests(url: str) -> object:
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, data=b"x", timeout=SECONDS).json()


def by_httpx(url: str) -> object:
    with httpx.Client(timeout=SECONDS, trust_env=False) as client:
        return client.post(url, content=b"x").text


def by_httpx2(url: str) -> object:
    with httpx2.Client(timeout=SECONDS, trust_env=False) as client:
        return client.post(url, content=b"x").text


async def by_async_httpx(url: str) -> object:
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        return (await client.post(url, content=b"x")).text


async def by_aiohttp(url: str, **timeouts: float) -> object:
    timeout = aiohttp.ClientTimeout(**(timeouts or {"sock_connect": SECONDS, "sock_read": SECONDS}))
    async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, data=b"x") as response:
        return await response.json()


def by_aiohttp_total(url: str) -> object:
    return by_aiohttp(url, total=OF_ALL)


def by_urllib(url: str) -> object:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data=b"x"), timeout=SECONDS) as response:
        return response.read()


def by_http_client(url: str) -> object:
    scheme, _, address = url.partition("://")
    kind = http.client.HTTPConnection if scheme == "http" else http.client.HTTPSConnection
    connection = kind(address.strip("/"), timeout=SECONDS)
    try:
        connection.request("POST", "/", b"x")
        return connection.getresponse().read()
    finally:
        connection.close()


async def by_streams(url: str) -> object:
    _, _, address = url.partition("://")
    async with asyncio.timeout(OF_ALL):
        name, _, port = address.strip("/").partition(":")
        reader, writer = await asyncio.open_connection(name, int(port), ssl=True if url.startswith("https") else None)
        try:
            writer.write(b"POST / HTTP/1.1\r\n\r\n")
            await writer.drain()
            return await reader.readexactly(1_000)
        finally:
            writer.close()


BY: dict[str, Call] = {
    "botocore": by_botocore,
    "urllib3": by_urllib3,
    "urllib3, again": by_urllib3_again,
    "requests": by_requests,
    "httpx": by_httpx,
    "httpx2": by_httpx2,
    "httpx, async": by_async_httpx,
    "aiohttp": by_aiohttp,
    "aiohttp, total": by_aiohttp_total,
    "urllib": by_urllib,
    "http.client": by_http_client,
    "streams": by_streams,
}
KINDS: dict[Kind, bool] = {
    "silent": True,
    "resets": True,
    "closes": True,
    "cuts": True,
    "refuses": False,
    "never accepts": False,
}
"""Whether the outcome is in doubt after what a server does."""


class Charging(Saga[tuple[str, str]], name="charging", retry=ONCE):
    """Charges by one of the clients."""

    @step
    async def charge(self, request: tuple[str, str], ctx: Context) -> None:
        client, url = request
        answer = BY[client](url)
        if inspect.isawaitable(answer):
            await answer


def charged(client: str, kind: Kind, scheme: str = "http") -> Outcome:
    with bad_server(kind) as port:
        return run(Charging, (client, f"{scheme}://127.0.0.1:{port}/"))


@pytest.mark.parametrize("client", BY)
def test_a_lost_answer_is_in_doubt_and_a_failed_connect_is_not(client: str) -> None:
    outcomes = {kind: charged(client, kind) for kind in KINDS}
    doubts = {kind: outcome.in_doubt for kind, outcome in outcomes.items()}
    assert doubts == {kind: ("charge",) if doubt else () for kind, doubt in KINDS.items()}, outcomes
    assert {outcome.status for outcome in outcomes.values()} == {"COMPENSATED"}


@pytest.mark.parametrize("client", BY)
def test_a_handshake_that_fails_is_a_failed_connect(client: str) -> None:
    kinds: tuple[Kind, ...] = ("silent", "resets", "closes")
    outcomes = {kind: charged(client, kind, "https") for kind in kinds}
    assert {kind: outcome.in_doubt for kind, outcome in outcomes.items()} == dict.fromkeys(outcomes, ()), outcomes


def test_a_timeout_around_a_whole_call_says_how_far_it_came() -> None:
    async def within(url: str) -> None:
        async with asyncio.timeout(OF_ALL):
            await by_aiohttp(url, total=5)

    kinds: tuple[Kind, ...] = ("silent", "never accepts")
    for kind in kinds:
        with bad_server(kind) as port, pytest.raises(TimeoutError) as caught:
            asyncio.run(within(f"http://127.0.0.1:{port}/"))
        assert in_doubt(caught.value) is KINDS[kind]


def test_the_table_names_classes_that_exist() -> None:
    """A class that a client renames is noticed. Some are in submodules, so all loaded modules are asked."""
    for name in (*CLIENTS, "http.client", "urllib.error"):
        importlib.import_module(name)
    for package, client in CLIENTS.items():
        modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
        for name in (*client.lost, *client.unsent):
            found = [getattr(module, name) for module in modules if hasattr(module, name)]
            assert any(issubclass(each, Exception) for each in found), f"{package}.{name}"


# ---- the chain of causes


def raised(*errors: BaseException, explicit: bool = True) -> BaseException:
    """Chain errors, the outermost first."""
    for outer, inner in itertools.pairwise(errors):
        if explicit:
            outer.__cause__ = inner
        else:
            outer.__context__ = inner
            outer.__suppress_context__ = False
    return errors[0]


class Lost(Exception):
    """An error of an author's own."""


class Unsure(Lost):
    """A subclass."""


class Gone(TimeoutError):
    """Subclasses of known errors are known."""


class Declined(PermanentError, TimeoutError):
    """Says what happened, whatever else it derives from."""


class Odd(Exception):
    """Hides what exceptions have."""

    __module__ = cast("str", None)
    args = cast("Any", 5)


class Timely(TimeoutError, Rejected):
    """The same in another order."""


class Refused(ConnectionRefusedError, TimeoutError):
    """The most specific base decides."""


CHAINS: list[tuple[list[BaseException], bool]] = [
    ([KeyError("x")], False),
    ([TimeoutError()], True),
    ([Gone()], True),
    ([ConnectionResetError()], True),
    ([BrokenPipeError()], True),
    ([ConnectionRefusedError()], False),
    ([Refused()], False),
    ([Declined()], False),
    ([Timely()], False),
    ([TimedOut("late")], True),
    ([WrongResult("x")], True),
    ([Ambiguous("no response")], True),
    ([Unavailable("down")], False),
    ([Unavailable("down"), TimeoutError()], True),
    ([OSError(), KeyError(), Lost(), TimeoutError()], True),
    ([Lost(), ConnectionRefusedError(), TimeoutError()], False),
    ([Rejected("no"), TimeoutError()], False),
    ([PermanentError("no"), ConnectionResetError()], False),
    ([Lost(), PermanentError("no"), ConnectionResetError()], False),
    ([Lost(), NotYet(5), ConnectionResetError()], False),
    ([Lost(), httpx.ConnectTimeout("x"), TimeoutError()], False),
    ([Lost(), httpx.ReadTimeout("x"), ConnectionRefusedError()], True),
    ([TimeoutError(), ConnectionRefusedError()], True),
    ([Odd()], False),
    ([Odd(), TimeoutError()], True),
    ([smtplib.SMTPServerDisconnected("x")], True),
    ([subprocess.TimeoutExpired("pay", 5)], True),
]


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(("errors", "doubt"), CHAINS)
def test_the_outermost_error_that_is_known_decides(errors: list[BaseException], doubt: bool, explicit: bool) -> None:
    assert in_doubt(raised(*errors, explicit=explicit)) is doubt
    for error in errors:
        error.__cause__ = error.__context__ = None


def test_from_none_hides_what_came_before() -> None:
    def fail() -> None:
        try:
            raise TimeoutError
        except TimeoutError:
            raise Lost from None

    with pytest.raises(Lost) as caught:
        fail()
    assert caught.value.__context__ is not None
    assert not in_doubt(caught.value)


def test_a_chain_that_leads_back_to_itself_ends() -> None:
    first, second = Lost(), Lost()
    assert not in_doubt(raised(first, second, first))


def test_a_long_chain_is_read() -> None:
    errors = [Lost() for _ in range(5_000)]
    assert in_doubt(raised(*errors, TimeoutError()))
    groups = [ExceptionGroup("g", [Lost()]) for _ in range(5_000)]
    assert in_doubt(raised(*groups, TimeoutError()))


def test_a_call_that_failed_to_connect_before_does_not_excuse_the_next() -> None:
    def call(client: str, first: int, second: int) -> None:
        try:
            BY[client](f"http://127.0.0.1:{first}/")
        except Exception:
            BY[client](f"http://127.0.0.1:{second}/")

    with bad_server("refuses") as refusing, bad_server("silent") as silent:
        for client in ("http.client", "urllib", "requests", "httpx"):
            with pytest.raises(Exception) as caught:
                call(client, refusing, silent)
            assert in_doubt(caught.value), client


class Limit:
    """Raises a timeout in the place of an error and names no cause, as ``asyncio.timeout`` of Python 3.11.2."""

    def __enter__(self) -> Limit:
        return self

    def __exit__(self, *error: object) -> None:
        raise TimeoutError


class Asks(Limit):
    """Asks a server when it is left, which has nothing to do with the error before."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"

    def __exit__(self, *error: object) -> None:
        by_http_client(self.url)


@pytest.mark.parametrize("kind", ["silent", "refuses"])
def test_an_error_in_place_of_a_failed_connect_leaves_no_doubt(kind: Kind) -> None:
    with bad_server(kind) as port, pytest.raises(TimeoutError) as caught, Limit():
        by_http_client(f"http://127.0.0.1:{port}/")
    assert in_doubt(caught.value) is KINDS[kind]


def test_a_failed_connect_does_not_excuse_a_call_that_a_context_manager_makes() -> None:
    def call(refusing: int, silent: int) -> None:
        with Asks(silent):
            by_http_client(f"http://127.0.0.1:{refusing}/")

    with bad_server("refuses") as refusing, bad_server("silent") as silent, pytest.raises(TimeoutError) as caught:
        call(refusing, silent)
    assert in_doubt(caught.value)


GROUPS: list[tuple[list[Exception], bool]] = [
    ([Rejected("no"), httpx.ReadTimeout("x")], True),
    ([Rejected("no"), KeyError()], False),
    ([KeyError(), ExceptionGroup("inner", [ConnectionRefusedError(), Gone()])], True),
    ([ExceptionGroup("inner", [ExceptionGroup("innermost", [TimeoutError()])])], True),
    ([NotYet(5), KeyError()], False),
    ([cast("Exception", raised(Rejected("no"), TimeoutError()))], False),
    ([cast("Exception", raised(Lost(), TimeoutError())), Rejected("no")], True),
]


@pytest.mark.parametrize(("errors", "doubt"), GROUPS)
def test_a_group_is_in_doubt_if_one_of_its_errors_is(errors: list[Exception], doubt: bool) -> None:
    assert in_doubt(ExceptionGroup("group", errors)) is doubt


def test_what_a_group_came_after_counts_unless_all_its_errors_say_what_happened() -> None:
    unknown, known = ExceptionGroup("g", [Lost(), Rejected("no")]), ExceptionGroup("g", [Rejected("no")])
    assert in_doubt(raised(unknown, TimeoutError(), explicit=False))
    assert not in_doubt(raised(known, TimeoutError(), explicit=False))


def test_the_authors_types_add_to_the_list() -> None:
    assert in_doubt(Unsure(), (Lost,))
    assert in_doubt(raised(KeyError(), Unsure()), (Lost,))
    assert in_doubt(ConnectionRefusedError(), (ConnectionRefusedError,))
    assert not in_doubt(ConnectionRefusedError(), (OSError,))
    assert not in_doubt(Rejected("no"), (Exception,))
    assert in_doubt(KeyError(), (Exception,))
    assert not in_doubt(ExceptionGroup("g", [Rejected("no")]), (Exception,))


# ---- what becomes of it


class Buying(Saga[Order], name="buying", in_doubt_on=[Unsure]):
    """Charges without a way to find out, and ships with one."""

    @step(retry=Retry.constant(max_retries=1, delay=0))
    def charge(self) -> str:
        LOG.append("charge")
        return "charged"

    @charge.compensate
    def refund(self, charge: str) -> None:
        LOG.append("refund")

    @step(retry=Retry.constant(max_retries=1, delay=0), undo_when="started", in_doubt_on=[LookupError])
    def ship(self) -> str:
        return "shipped"

    @ship.compensate
    def fetch(self, ship: str | None) -> None:
        LOG.append(f"fetch:{ship}")

    @step(retry=ONCE, in_doubt_on=None)
    def look(self) -> str:
        return "seen"


def bought(**fail: Any) -> Outcome:
    return run(Buying, Order("mug"), fail=fail)


def test_a_step_in_doubt_is_listed() -> None:
    outcome = bought(charge=TimeoutError("read"))
    assert (outcome.status, outcome.in_doubt, outcome.steps["charge"]) == ("COMPENSATED", ("charge",), "FAILED")
    failed = [entry.details for entry in outcome.audit if entry.action == "StepFailed"]
    assert [(each["permanent"], each["outcome_unknown"]) for each in failed] == [(False, True), (False, True)]


def test_a_step_in_doubt_is_undone_if_its_undo_finds_out() -> None:
    outcome = bought(ship=ConnectionResetError())
    assert (outcome.status, outcome.in_doubt) == ("COMPENSATED", ())
    assert LOG == ["charge", "fetch:None", "refund"]


def test_a_later_attempt_that_completes_settles_it() -> None:
    outcome = bought(charge=[TimeoutError(), None])
    assert (outcome.status, outcome.in_doubt) == ("COMPLETED", ())


def test_a_later_attempt_that_fails_for_sure_does_not() -> None:
    assert bought(charge=[TimeoutError(), Rejected("no funds")]).in_doubt == ("charge",)


def test_a_group_leaves_doubt_whichever_of_its_errors_decides() -> None:
    outcome = bought(charge=ExceptionGroup("both", [Rejected("no funds"), httpx.ReadTimeout("no answer")]))
    assert outcome.error is not None
    assert (outcome.error.type, outcome.in_doubt) == ("Rejected", ("charge",))
    assert [entry.action for entry in outcome.audit].count("StepFailed") == 1


def test_what_the_class_and_the_step_name_is_in_doubt() -> None:
    assert bought(charge=Unsure()).in_doubt == ("charge",)
    assert bought(charge=KeyError()).in_doubt == ()
    for error in (Unsure(), KeyError()):
        LOG.clear()
        bought(ship=error)
        assert "fetch:None" in LOG


def test_a_step_that_only_reads_is_never_in_doubt_for_what_it_raises() -> None:
    for error in (TimeoutError(), Unsure(), TimedOut("no response")):
        assert bought(look=error).in_doubt == ()


class Slow(Saga[Order], name="slow", step_timeout=0.05):
    """Only reads, and is late."""

    @step(retry=ONCE, in_doubt_on=None)
    async def look(self) -> str:
        await asyncio.sleep(10)
        return "seen"


class Wrong(Saga[Order], name="wrong"):
    """Only reads, and returns something else."""

    @step(retry=ONCE, in_doubt_on=None)
    def look(self) -> str:
        return cast("str", 5)


@pytest.mark.parametrize("saga_class", [Slow, Wrong])
def test_a_late_attempt_of_it_and_a_refused_result_are(saga_class: type[Saga[Order]]) -> None:
    assert run(saga_class, Order("x")).in_doubt == ("look",)


class Pivot(Saga[Order], name="pivot", retry=ONCE):
    """Cannot go back once it has captured."""

    @step
    def hold(self) -> None: ...

    @hold.compensate
    def release(self) -> None:
        LOG.append("release")

    @step(pivot=True)
    def capture(self) -> None: ...


class Looking(Saga[Order], name="looking", retry=ONCE):
    """Its pivot only reads."""

    @step
    def hold(self) -> None: ...

    @hold.compensate
    def release(self) -> None:
        LOG.append("release")

    @step(pivot=True, in_doubt_on=None)
    def capture(self) -> None: ...


def test_a_pivot_in_doubt_counts_as_completed() -> None:
    outcome = run(Pivot, Order("x"), fail={"capture": TimeoutError()})
    assert (outcome.status, LOG) == ("DEAD_LETTERED", [])
    assert run(Pivot, Order("x"), fail={"capture": ConnectionRefusedError()}).status == "COMPENSATED"


def test_a_pivot_that_only_reads_is_not_passed_by_a_timeout() -> None:
    outcome = run(Looking, Order("x"), fail={"capture": TimeoutError()})
    assert (outcome.status, LOG) == ("COMPENSATED", ["release"])


def test_an_undo_is_repeated_as_before() -> None:
    outcome = bought(look=KeyError("x"), fetch=[TimeoutError(), None])
    assert (outcome.status, outcome.in_doubt) == ("COMPENSATED", ())
    failed = next(entry for entry in outcome.audit if entry.action == "CompensationAttemptFailed")
    assert "outcome_unknown" not in failed.details


class Guarded(Saga[Order], name="guarded-by-policy"):
    """Its policy gives up timeouts, and its breaker counts what it does not give up."""

    @step(
        retry=Retry.constant(max_retries=5, delay=0, give_up_on=[TimeoutError]),
        circuit_breaker=CircuitBreaker(failure_threshold=1, when_open="fail"),
    )
    def pay(self) -> None: ...


def test_it_is_given_up_and_counted_as_the_policy_says_for_its_class() -> None:
    given_up = run(Guarded, Order("x"), fail={"pay": TimeoutError()})
    counted = run(Guarded, Order("x"), fail={"pay": ConnectionResetError()})
    assert [entry.action for entry in given_up.audit].count("StepFailed") == 1
    assert given_up.error is not None
    assert given_up.error.type == "TimeoutError"
    assert counted.error is not None
    assert counted.error.type == "BreakerOpen"
    assert (given_up.in_doubt, counted.in_doubt) == (("pay",), ("pay",))


class Optional(Saga[Order], name="optional"):
    """Goes on without a result."""

    @step(retry=Retry.constant(max_retries=0, on_exhausted=Exhausted.CONTINUE), within=timedelta(minutes=1))
    def label(self) -> str | None:
        return "label"

    @step
    def ship(self, label: str | None) -> str:
        return label or "none"


def test_a_step_in_doubt_that_the_saga_continues_without_is_listed() -> None:
    outcome = run(Optional, Order("x"), fail={"label": TimeoutError()})
    assert (outcome.status, outcome.result, outcome.in_doubt) == ("COMPLETED", "none", ("label",))


class Asking(Saga[Order], name="asking", retry=ONCE):
    """Its wait asks by a method."""

    @wait_for(str, timeout=timedelta(days=1), retry=ONCE)
    def approval(self) -> None: ...


class AskingAfterReading(Saga[Order], name="asking-after-reading", retry=ONCE):
    """The same, where the method only reads."""

    @wait_for(str, timeout=timedelta(days=1), retry=ONCE, in_doubt_on=None)
    def approval(self) -> None: ...


class Listing(Saga[Order], name="listing", retry=ONCE):
    """Its children are what a client lists."""

    @children(Optional, retry=ONCE, in_doubt_on=None)
    def parts(self) -> list[Order]:
        return []


def test_methods_of_waits_and_children_are_judged_too() -> None:
    assert run(Asking, Order("x"), fail={"approval": TimeoutError()}).in_doubt == ("approval",)
    assert run(AskingAfterReading, Order("x"), fail={"approval": TimeoutError()}).in_doubt == ()
    assert run(Listing, Order("x"), fail={"parts": TimeoutError()}).in_doubt == ()


class Constructed(Saga[Order], name="constructed", retry=ONCE):
    """Fails before its code."""

    @classmethod
    def create(cls) -> Constructed:
        if LOG:
            raise TimeoutError("the configuration cannot be read")
        LOG.append("created")
        return cls()

    @step(retry=ONCE)
    def pay(self) -> None: ...


def test_an_error_before_the_code_leaves_no_doubt(bench: Make) -> None:
    b = bench(Constructed)
    LOG.append("created")
    saga_id = b.start("constructed")
    b.deliver("constructed", "pay")
    details = b.entry(saga_id, "StepFailed")["details"]
    assert ("outcome_unknown" in details, details["error"]["type"]) == (False, "TimeoutError")


class Waiting(Saga[Order], name="waiting-for-an-answer"):
    """Its client gets no answer."""

    @step(retry=ONCE)
    def pay(self) -> None:
        raise httpx.ReadTimeout("the read operation timed out")


def test_a_saga_in_doubt_is_on_the_attention_list(bench: Make) -> None:
    b = bench(Waiting)
    saga_id = b.start("waiting-for-an-answer")
    b.run()
    shown = b.show(saga_id)
    assert (shown["status"], shown["in_doubt"]) == ("COMPENSATED", ["pay"])
    assert shown["attention"]["reason"] == "the outcome of pay is unknown"


class Inside(Saga[Order], name="inside"):
    """Says which error is being handled around its code: it would be the context of what the code raises."""

    @step
    def first(self) -> str:
        return repr(sys.exception())

    @step
    async def second(self) -> str:
        return repr(sys.exception())


@pytest.mark.parametrize("kind", ["bench", "deployed"])
def test_no_error_is_handled_around_the_code(kind: str, request: pytest.FixtureRequest) -> None:
    b: Bench = request.getfixturevalue(kind)(Inside)
    saga_id = b.start("inside")
    b.run()
    assert [each["result"] for each in b.show(saga_id)["steps"]] == ["None", "None"]
    assert set(run(Inside, Order("x")).results.values()) == {"None"}


# ---- what authors may name


def classes(step_option: Any = (), class_option: Any = ()) -> type[Any]:
    class Trip(Saga[str], name="trip", in_doubt_on=class_option):
        @step(in_doubt_on=step_option)
        def pay(self) -> None: ...

    return Trip


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"step_option": TimeoutError}, ['step "pay"', "in_doubt_on must be a list of exception types", "or None"]),
        ({"step_option": ["TimeoutError"]}, ['step "pay"', "not ['TimeoutError']"]),
        ({"step_option": [Rejected]}, ['step "pay"', "in_doubt_on cannot have Rejected: it says what happened"]),
        ({"step_option": [KeyError, Declined]}, ["in_doubt_on cannot have Declined: it says what happened"]),
        ({"step_option": [PermanentError]}, ["PermanentError: it says what happened"]),
        ({"step_option": [NotYet]}, ["NotYet: it says what happened"]),
        ({"class_option": [NotYet]}, ['Trip (saga "trip")', "NotYet: it says what happened"]),
        ({"class_option": None}, ["class keyword in_doubt_on must be a list of exception types", "not None"]),
        ({"class_option": KeyError}, ["class keyword in_doubt_on", "not <class 'KeyError'>"]),
    ],
)
def test_a_mistake_is_reported_when_the_class_is_defined(options: dict[str, Any], texts: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        classes(**options)
    assert [text for text in texts if text not in str(caught.value)] == []


def test_the_steps_types_add_to_those_of_the_class() -> None:
    def types(cls: type[Any]) -> tuple[type[BaseException], ...] | None:
        return definition_of(cls).step("pay").in_doubt_on

    assert types(classes([KeyError], [Lost])) == (Lost, KeyError)
    assert types(classes((), (Lost,))) == (Lost,)
    assert types(classes({KeyError}, frozenset({Lost}))) == (Lost, KeyError)
    assert types(classes(None, [Lost])) is None
    assert types(classes([TimedOut, WrongResult])) == (TimedOut, WrongResult)
