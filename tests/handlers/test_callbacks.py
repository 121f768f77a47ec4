"""Callback URLs: what they take, what they refuse, and how their keys are replaced."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import jsonschema_rs
import pytest

from sagas import Context, Exhausted, Retry, Saga, SagaError, step, wait_for
from sagas.engine.operate.callbacks import Callbacks, CallbackTarget
from sagas.errors import NotFound
from sagas.handlers import api as api_handler
from sagas.handlers import step as step_handler
from sagas.handlers.http.inputs import FORM
from sagas.store.callback_keys import CallbackKeys
from tests.engine.test_waits import Approval
from tests.handlers.conftest import Answer, Make, Site, request
from tests.support.aws import REGION, LambdaContext, client
from tests.support.bench import ManualClock
from tests.support.sagas import Order

URL = "https://hooks.example.com/v1"
SECRET = "callbacks"
SENT: list[str] = []


class Public(Saga[Order], name="public"):
    """Asks a person outside."""

    @wait_for(Approval, timeout=timedelta(days=3), public=True, retry=Retry.constant(max_retries=1, delay=0.0))
    def approval(self, ctx: Context) -> None:
        SENT.append(ctx.callback_url)
        if len(SENT) == 1:
            raise RuntimeError("the mail was not sent")

    private = wait_for(Approval, timeout=timedelta(days=3), on_timeout=Exhausted.CONTINUE)

    @step
    def end(self, approval: Approval) -> str:
        return approval.by


@pytest.fixture
def public(site: Make) -> Site:
    SENT.clear()
    client("secretsmanager").create_secret(Name=SECRET, SecretString="k" * 64)
    return site(Public, SAGAS_CALLBACK_URL=URL, SAGAS_CALLBACK_SECRET=SECRET)


def _asked(public: Site) -> tuple[str, str]:
    """A saga that waits, and the path of its callback."""
    saga = public.begin("public")
    public.run()
    assert public.call("GET", f"/sagas/public/{saga}").body["status"] == "WAITING"
    assert SENT[-1].startswith(f"{URL}/callbacks/")
    return saga, SENT[-1].removeprefix(URL)


def _call_back(public: Site, path: str, body: Any) -> Answer:
    """Call as those do whom nobody has asked who they are."""
    event = request("POST", path, body)
    event["requestContext"]["identity"] = {"sourceIp": "192.0.2.1"}
    return public.send(event)


def test_who_has_the_url_sends_the_signal(public: Site) -> None:
    saga, path = _asked(public)
    assert len(set(SENT)) == 1, "the same on every attempt"
    assert len(SENT) == 2
    taken = _call_back(public, path, {"by": "ada"})
    assert taken.status == 202
    assert taken.body == {"type": "public", "saga_id": saga, "step": "approval", "status": "WAITING"}
    assert _call_back(public, path, {"by": "ada"}).status == 200
    assert _call_back(public, path, {"by": "bob"}).status == 409
    entries = public.call("GET", f"/sagas/public/{saga}/audit").body["entries"]
    assert [entry["actor"] for entry in entries if entry["action"] == "SignalReceived"] == ["callback"]


@pytest.mark.parametrize(
    ("body", "status"),
    [('{"by": 5}', 422), ("", 422), ("{", 400), ('"' + "x" * 300_000 + '"', 413)],
    ids=["another type", "nothing", "no JSON", "too large"],
)
def test_what_does_not_fit_is_told(public: Site, body: str, status: int) -> None:
    saga, path = _asked(public)
    assert _call_back(public, path, body).status == status
    assert public.call("GET", f"/sagas/public/{saga}").body["status"] == "WAITING"


def test_a_saga_that_is_over_takes_none(public: Site) -> None:
    saga, path = _asked(public)
    public.call("DELETE", f"/sagas/public/{saga}")
    assert _call_back(public, path, {"by": "ada"}).status == 409


def test_a_caller_without_rights_learns_no_reason_of_an_operator(public: Site) -> None:
    saga, path = _asked(public)
    public.call("DELETE", f"/sagas/public/{saga}", reason="the customer is bankrupt")
    public.run()
    refused = _call_back(public, path, {"by": "ada"})
    public.clock.advance(3_600)
    assert public.call("POST", f"/sagas/public/{saga}/purge", {"reason": "court order 17"}).status == 200
    purged = _call_back(public, path, {"by": "ada"})
    assert [answer.status for answer in (refused, purged)] == [409, 409]
    text = "step approval took another value, or takes none any more"
    assert [answer.body["error"]["message"] for answer in (refused, purged)] == [text, text]


def test_a_caller_without_rights_learns_nothing_of_services(public: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables belong to another service than the function's."""
    _, path = _asked(public)
    monkeypatch.setenv("SAGAS_SERVICE", "other")
    api_handler.reset()
    before = public.tables()
    answers = [_call_back(public, place, {"by": "ada"}) for place in (path, f"/callbacks/{_forged(path)[0]}")]
    assert [answer.status for answer in answers] == [503, 404]
    assert answers[0].body["error"]["message"] == "no signal can be taken now; try again later"
    assert public.tables() == before


def _forged(path: str) -> list[str]:
    token = path.removeprefix("/callbacks/")
    text, _, code = token.partition(".")
    parts = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().split("/")

    def encoded(*changed: str) -> str:
        return urlsafe_b64encode("/".join(changed).encode()).rstrip(b"=").decode()

    name, saga_id, step_name, key = parts
    other = "00000000-0000-7000-8000-000000000009"
    return [
        "x",
        ".",
        f"{text}.",
        f".{code}",
        text,
        f"{text}.{code}x",
        f"{text}.{code}.",
        f"{text}=.{code}",
        f"{text}!.{code}",
        f"{text}.{code[:-1]}{'A' if code[-1] != 'A' else 'B'}",
        f"{text}.{'A' * len(code)}",
        f"{text}.é",
        f"é.{code}",
        f"{encoded(name, other, step_name, key)}.{code}",
        f"{encoded(name, saga_id, 'private', key)}.{code}",
        f"{encoded('nothing', saga_id, step_name, key)}.{code}",
        f"{encoded(name, saga_id, step_name, 'aaaaaaaa')}.{code}",
        f"{encoded(name, saga_id.upper(), step_name, key)}.{code}",
        f"{encoded(name, saga_id, step_name)}.{code}",
        "A" * 10_000,
    ]


def test_whatever_is_none_of_our_tokens_is_not_found(public: Site) -> None:
    """And told nothing of why, whatever body comes with it."""
    saga, path = _asked(public)
    before = public.tables()
    answers = [_call_back(public, f"/callbacks/{token}", "{") for token in _forged(path)]
    assert {(one.status, one.code) for one in answers} == {(404, "not_found")}
    assert len({one.body["error"]["message"] for one in answers}) == 1
    assert public.tables() == before
    assert _call_back(public, path, {"by": "ada"}).status == 202, saga


def test_a_wait_that_is_no_longer_public_takes_no_callback(public: Site) -> None:
    saga, _ = _asked(public)
    callbacks = api_handler._engine().callbacks  # pyright: ignore[reportPrivateUsage]
    assert callbacks is not None
    path = callbacks.url("public", saga, "private").removeprefix(URL)
    assert _call_back(public, path, {"by": "ada"}).status == 404


def test_without_a_secret_there_is_no_route(site: Make) -> None:
    s = site(Public)
    assert s.send(request("POST", "/callbacks/x", "{}")).status == 404


def test_a_step_that_is_no_public_wait_has_no_url(site: Make) -> None:
    class Private(Saga[Order], name="private"):
        @step
        def begin(self, ctx: Context) -> str:
            return ctx.callback_url

    from sagas.testing import run

    outcome = run(Private, Order("train"))
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == (
        "SagaError",
        "ctx.callback_url: step begin of saga private is not public; declare it with wait_for(..., public=True)",
    )


def test_with_each_new_key_the_one_before_stays_valid(public: Site) -> None:
    secrets = client("secretsmanager")
    _, first = _asked(public)
    secrets.put_secret_value(SecretId=SECRET, SecretString="l" * 64)
    step_handler.reset()
    _, second = _asked(public)
    assert _key_of(first) != _key_of(second)
    secrets.put_secret_value(SecretId=SECRET, SecretString="m" * 64)
    api_handler.reset()
    assert _call_back(public, first, {"by": "ada"}).status == 404
    assert _call_back(public, second, {"by": "ada"}).status == 202


def test_with_a_key_that_is_too_short_the_one_before_signs(public: Site, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = client("secretsmanager")
    _, first = _asked(public)
    assert '"CallbackKeyTooShort"' not in capsys.readouterr().out
    secrets.put_secret_value(SecretId=SECRET, SecretString="\n")
    step_handler.reset()
    saga, second = _asked(public)
    assert _key_of(first) == _key_of(second)
    (wait, *_) = public.call("GET", f"/sagas/public/{saga}").body["steps"]
    assert (wait["status"], wait["attempts"]) == ("WAITING", 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"CallbackKeyTooShort"' in line]
    assert [line["CallbackKeyTooShort"] for line in lines] == [[1.0]]  # five minutes long, for each environment
    api_handler.reset()
    assert _call_back(public, second, {"by": "ada"}).status == 202
    assert _call_back(public, first, {"by": "ada"}).status == 202


@pytest.mark.parametrize("why", ["short", "gone"])
def test_while_no_key_can_sign_nothing_is_called_and_nothing_counted(public: Site, why: str) -> None:
    secrets = client("secretsmanager")
    if why == "short":
        secrets.put_secret_value(SecretId=SECRET, SecretString="short")
        secrets.put_secret_value(SecretId=SECRET, SecretString="shorter")
    else:
        secrets.delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)
    step_handler.reset()
    saga = public.begin("public")
    for _ in range(4):
        public.invoke("public", "approval")
        public.clock.advance(300)
    view = public.call("GET", f"/sagas/public/{saga}").body
    assert (view["status"], view["steps"][0]["attempts"], SENT) == ("RUNNING", 0, [])
    assert (view["waiting"]["kind"], view["attention"]["code"]) == ("inputs", "inputs_unreachable")
    if why == "short":
        assert "is shorter than 32 bytes, and no previous version is longer; store a longer one" in str(view)
        secrets.put_secret_value(SecretId=SECRET, SecretString="k" * 64)
    else:
        secrets.create_secret(Name=SECRET, SecretString="k" * 64)
    public.clock.advance(300)
    public.run()
    view = public.call("GET", f"/sagas/public/{saga}").body
    assert (view["status"], view["attention"], len(SENT)) == ("WAITING", None, 2)


def _key_of(path: str) -> str:
    text = path.removeprefix("/callbacks/").partition(".")[0]
    return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().rpartition("/")[2]


class CountedKeys(CallbackKeys):
    """Counts what is read."""

    reads = 0

    def _read(self, stage: Any) -> Any:
        self.reads += 1
        return super()._read(stage)


def test_the_secret_is_read_once_and_again_when_it_is_old(site: Make) -> None:
    _ = site
    secrets, clock = client("secretsmanager"), ManualClock()
    secrets.create_secret(Name=SECRET, SecretString="k" * 64)
    keys = CountedKeys(SECRET, clock.now, REGION)
    callbacks = Callbacks(URL, keys)
    urls = {callbacks.url("public", "id", f"step{n}") for n in range(5)}
    assert (len(urls), keys.reads) == (5, 1)
    secrets.put_secret_value(SecretId=SECRET, SecretString="l" * 64)
    clock.advance(290)
    before = keys.signing()
    clock.advance(20)
    assert keys.signing() != before
    assert keys.reads == 2
    assert callbacks.read(urls.pop().rpartition("/")[2]).saga == "public"


def test_forged_keys_have_the_secret_read_six_times_a_minute_at_most(site: Make) -> None:
    _ = site
    clock = ManualClock()
    client("secretsmanager").create_secret(Name=SECRET, SecretString="k" * 64)
    keys = CountedKeys(SECRET, clock.now, REGION)
    for _second in range(60):
        for _call in range(20):
            assert keys.named("forged00") is None
        clock.advance(1)
    assert keys.reads <= 2 * 6


def test_a_key_that_is_too_short_is_none(site: Make) -> None:
    _ = site
    client("secretsmanager").create_secret(Name=SECRET, SecretString="short")
    keys = CallbackKeys(SECRET, ManualClock().now, REGION)
    with pytest.raises(SagaError, match="shorter than 32 bytes"):
        keys.signing()
    assert keys.named("anything") is None


def test_a_token_reads_as_what_it_was_made_for(site: Make) -> None:
    _ = site
    client("secretsmanager").create_secret(Name=SECRET, SecretString="k" * 64)
    callbacks = Callbacks(URL, CallbackKeys(SECRET, ManualClock().now, REGION))
    for name in ("approval", "größe", "a" * 300):
        token = callbacks.url("loan", "id", name).rpartition("/")[2]
        assert callbacks.read(token) == CallbackTarget("loan", "id", name)
        assert token.isascii()
        with pytest.raises(NotFound):
            callbacks.read(token.swapcase())


def test_the_description_has_the_route_and_what_it_takes(public: Site) -> None:
    described: dict[str, Any] = public.call("GET", "/openapi.json").body
    operation = described["paths"]["/callbacks/{token}"]["post"]
    assert operation["security"] == []
    [schema] = operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    name = schema["$ref"].removeprefix("#/components/schemas/")
    assert set(described["components"]["schemas"][name]["properties"]) == {"by", "note"}
    assert {"200", "202", "404", "409", "413", "422"} <= set(operation["responses"])


@pytest.mark.parametrize(
    ("form", "fits"),
    [
        ({"by": "ada"}, True),
        ({"by": "ada", "note": "now"}, True),
        ({"note": "now"}, False),
        ({"by": ["ada", "ben"]}, False),
        ({"by": "ada", "colour": "blue"}, False),
    ],
)
def test_a_form_is_described_as_it_is_taken(public: Site, form: dict[str, Any], fits: bool) -> None:
    described: dict[str, Any] = public.call("GET", "/openapi.json").body
    content = described["paths"]["/callbacks/{token}"]["post"]["requestBody"]["content"][FORM]
    schema = content["schema"] | {"components": described["components"]}
    _, path = _asked(public)
    event = request("POST", path, urlencode(form, doseq=True)) | {"headers": {"Content-Type": FORM}}
    answer = api_handler.handler(event, LambdaContext())
    assert jsonschema_rs.validator_for(schema).is_valid(form) is fits
    assert answer["statusCode"] == (202 if fits else 422)


def test_no_token_gets_into_the_log(public: Site, caplog: pytest.LogCaptureFixture) -> None:
    _, path = _asked(public)
    for body in ('{"by": "ada"}', "{", '{"by": 5}'):
        api_handler.handler(request("POST", path, body), LambdaContext())
    token = path.rpartition("/")[2]
    said = [str(vars(record)) for record in caplog.records]
    assert any("InvalidRequest" in one for one in said)
    assert not [one for one in said if token in one]
