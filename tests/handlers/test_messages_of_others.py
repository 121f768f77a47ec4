"""Messages as AWS and others document them start sagas, and signal them, by what the pages say."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Saga, step, wait_for
from sagas.handlers.http.inputs import FORM
from tests.handlers.conftest import EVENTS, Answer, Make, Site, request
from tests.handlers.test_commands import Own, own_queue
from tests.support.aws import client
from tests.support.sagas import Order

MESSAGES = EVENTS / "messages"
ORDER = {"order_id": "o-1", "seats": 2}
RECORD = "$.detail.Records[0].s3"
SENT: list[str] = []


def text_of(name: str) -> str:
    return (MESSAGES / name).read_text()


STARTS: dict[str, tuple[Any, Any, list[Any]]] = {
    "s3.json": (
        {"bucket": f"{RECORD}.bucket.name", "key": f"{RECORD}.object.key"},
        [f"{RECORD}.object.key", f"{RECORD}.object.sequencer"],
        [{"bucket": "uploads", "key": key} for key in ("photos/été 2026/a+b.jpg", "reports/january.csv")],
    ),
    "s3_test.json": ("$.detail", "$.id", []),
    "sns.json": ("$.detail.Message", "$.detail.MessageId", [ORDER]),
    "sns_raw.json": ("$.detail", "$.detail.order_id", [ORDER]),
    "eventbridge.json": ("$.detail.detail", "$.detail.id", [ORDER]),
    "cloudevent.json": ("$.detail.data", ["$.detail.source", "$.detail.id"], [ORDER]),
}
FORMS = ("twilio.form", "slack.form")


def test_every_message_is_tested_here() -> None:
    assert {path.name for path in MESSAGES.iterdir()} == {*STARTS, *FORMS}


@pytest.mark.parametrize("name", STARTS)
def test_a_message_starts_its_sagas_once(site: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    paths, key, expected = STARTS[name]
    own: Own = own_queue(site, monkeypatch, request=paths, key=key)
    for _ in range(2):  # a queue may deliver twice, and so may S3, SNS and EventBridge
        assert own.deliver(text_of(name)) == []
    assert sorted(own.requests(), key=str) == sorted(expected, key=str)


class Texted(Saga[Order], name="texted"):
    """Waits for a form."""

    @wait_for(dict[str, object], timeout=timedelta(days=1), public=True)
    def answer(self, ctx: Context) -> None:
        SENT.append(ctx.callback_url)

    @step
    def read(self, answer: dict[str, object]) -> str:
        if "payload" in answer:
            payload = json.loads(str(answer["payload"]))
            return f"{payload['user']['name']}: {payload['actions'][0]['value']}"
        return f"{answer['From']}: {answer['Body']}"


@pytest.fixture
def texted(site: Make) -> Site:
    SENT.clear()
    client("secretsmanager").create_secret(Name="callbacks", SecretString="k" * 64)
    return site(Texted, SAGAS_CALLBACK_URL="https://hooks.example.com/v1", SAGAS_CALLBACK_SECRET="callbacks")


def post(s: Site, form: str, content_type: str = f"{FORM}; charset=UTF-8") -> Answer:
    """Post a form to the callback URL of the last saga."""
    event = request("POST", SENT[-1].removeprefix("https://hooks.example.com/v1"), form)
    event["headers"]["content-type"] = content_type
    return s.send(event)


@pytest.mark.parametrize(
    ("name", "result"), [("twilio.form", "+41795550123: Yes, I agree ✓"), ("slack.form", "ada: yes")]
)
def test_a_form_signals_a_public_wait(texted: Site, name: str, result: str) -> None:
    saga_id = texted.begin("texted")
    texted.run()
    assert post(texted, text_of(name)).status == 202
    assert post(texted, text_of(name), FORM.upper()).status == 200
    texted.run()
    assert texted.show(saga_id)["result"] == result


class Poked(Saga[Order], name="poked"):
    """Waits for a call, whatever it says."""

    @wait_for(str | None, timeout=timedelta(days=1), public=True)
    def call(self, ctx: Context) -> None:
        SENT.append(ctx.callback_url)

    @step
    def read(self, call: str | None) -> str:
        return call or "called"


def test_a_call_without_a_body_is_null(site: Make) -> None:
    client("secretsmanager").create_secret(Name="callbacks", SecretString="k" * 64)
    s = site(Poked, SAGAS_CALLBACK_URL="https://hooks.example.com/v1", SAGAS_CALLBACK_SECRET="callbacks")
    saga_id = s.begin("poked")
    s.run()
    assert post(s, "", "text/plain").status == 202
    s.run()
    assert s.show(saga_id)["result"] == "called"


def test_fields_that_come_several_times_or_are_empty(texted: Site) -> None:
    saga_id = texted.begin("texted")
    texted.run()
    assert post(texted, "From=a&Body=&tag=x&tag=y").status == 202
    texted.run()
    assert texted.show(saga_id)["steps"][0]["result"] == {"From": "a", "Body": "", "tag": ["x", "y"]}


@pytest.mark.parametrize("form", ["a=%ff", "&".join(f"a{n}=1" for n in range(1_001))])
def test_a_form_that_cannot_be_read_is_refused(texted: Site, form: str) -> None:
    texted.begin("texted")
    texted.run()
    answer = post(texted, form)
    assert (answer.status, answer.code) == (400, "malformed_body")
    assert "not a form in UTF-8" in answer.body["error"]["message"]


def test_only_a_callback_url_takes_forms(texted: Site) -> None:
    event = request("POST", "/sagas/texted", "item=train")
    event["headers"]["content-type"] = FORM
    assert texted.send(event).code == "malformed_body"
