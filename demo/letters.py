"""Fourth act: the message of a failed step waits in the dead-letter queue, and the saga continues after a redrive."""

from __future__ import annotations

import time
from typing import Any

from demo.stack import Api, DemoFailed, LocalStack
from sagas import SagaClient

_KEY = "sources/demo/README.md"
_PATIENCE = 60.0


class Topic:
    """The topic for announcements of archives."""

    def __init__(self, stack: LocalStack) -> None:
        self._sns = stack.client("sns")
        self._arn = stack.outputs["AnnounceTopicArn"]

    def remove(self) -> None:
        """Delete the topic, so every announcement fails."""
        self._sns.delete_topic(TopicArn=self._arn)

    def restore(self) -> None:
        """Create the topic again, so announcements succeed."""
        self._sns.create_topic(Name=self._arn.rpartition(":")[2])


def redrive(stack: LocalStack, api: Api) -> tuple[dict[str, Any], str]:
    """Run create-zip without the topic, restore the topic, and redrive the dead letter.

    Returns:
        The completed saga, and a line about its wait.

    Raises:
        DemoFailed: the saga did not wait, or did not complete.
    """
    topic, client = Topic(stack), SagaClient.local()
    topic.remove()
    try:
        saga = api.run("create-zip", {"bucket": stack.outputs["ZipsBucket"], "keys": [_KEY]})
        _wait_for_letter(client, saga["saga_id"])
    finally:
        topic.restore()
    if saga["status"] != "DEAD_LETTERED":
        raise DemoFailed(f"without its topic, create-zip ended {saga['status']}")
    waited = f"{saga['error']['step']} failed: {saga['error']['type']}; it waited as {saga['status']} until redriven"
    client.redrive("create-zip")
    done = client.wait("create-zip", saga["saga_id"], _PATIENCE, after=saga["updated_at"])
    if done["status"] != "COMPLETED":
        raise DemoFailed(f"after the redrive, create-zip is {done['status']}")
    return {**done}, waited


def _wait_for_letter(client: SagaClient, saga_id: str) -> None:
    end = time.monotonic() + _PATIENCE
    while saga_id not in [letter.saga_id for letter in client.dead_letters("create-zip")]:
        if time.monotonic() > end:
            raise DemoFailed("the message did not get into the dead-letter queue")
        time.sleep(0.2)
