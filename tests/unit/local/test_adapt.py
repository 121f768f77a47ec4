"""What a template is changed to, so that the emulator does as AWS does."""

from __future__ import annotations

from typing import Any

from sagas.local.adapt import with_batch_actions


def test_iam_allows_batches_to_whom_it_allows_single_messages() -> None:
    policy: dict[str, Any] = {
        "Type": "AWS::IAM::Policy",
        "Properties": {
            "PolicyDocument": {
                "Statement": [
                    {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "q"},
                    {"Effect": "Allow", "Action": ["sqs:ReceiveMessage", "sqs:DeleteMessage"], "Resource": "q"},
                ]
            }
        },
    }
    changed = with_batch_actions({"Resources": {"Policy": policy}})["Resources"]["Policy"]["Properties"]
    assert [one["Action"] for one in changed["PolicyDocument"]["Statement"]] == [
        ["sqs:SendMessage", "sqs:SendMessageBatch"],
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:DeleteMessageBatch"],
    ]
    assert policy["Properties"]["PolicyDocument"]["Statement"][0]["Action"] == "sqs:SendMessage"
