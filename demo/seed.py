"""``python -m demo.seed``: adds the data that the tour needs to the running local stack, or breaks it on purpose.

``python -m demo.seed``               stock for the shop, files for the archive
``python -m demo.seed large``         files whose archive takes a while; writes the request to .sagas/large.json
``python -m demo.seed topic-off|topic-on``  takes the topic of the announcements away, and puts it back
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo.letters import Topic
from demo.shop import open_shop
from demo.stack import DESCRIPTION, LocalStack

_EVENTS = Path(__file__).resolve().parents[1] / "events"
_MANY = 1_000
_SIZE = 300_000
"""Each object takes a request. So many small objects take longer than a few large ones, and less disk space."""
_REQUEST = Path(".sagas/large.json")


def _fill(stack: LocalStack) -> None:
    open_shop(stack, json.loads((_EVENTS / "checkout.json").read_text())["items"])
    request = json.loads((_EVENTS / "create_zip.json").read_text())
    s3 = stack.client("s3")
    s3.create_bucket(Bucket=request["bucket"])
    for key in request["keys"]:
        s3.put_object(Bucket=request["bucket"], Key=key, Body=f"This is {key}.\n".encode() * 1_000)
    print("In stock: 10 of each SKU of events/checkout.json. Stored: the files of events/create_zip.json.")


def _large(stack: LocalStack) -> None:
    s3, bucket = stack.client("s3"), stack.outputs["ZipsBucket"]
    keys = [f"sources/large/{number}.bin" for number in range(_MANY)]

    def put(key: str) -> None:
        s3.put_object(Bucket=bucket, Key=key, Body=b"." * _SIZE)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, keys))
    _REQUEST.write_text(json.dumps({"bucket": bucket, "keys": keys}))
    print(f"Stored: {_MANY} files of {_SIZE:,} bytes. The request is in {_REQUEST}.")


def main(arguments: list[str]) -> int:
    """Run the command, and return the exit code."""
    if not DESCRIPTION.is_file():
        print("no local stack is running here; `make run` starts one", file=sys.stderr)
        return 1
    stack = LocalStack(json.loads(DESCRIPTION.read_text()))
    match arguments:
        case []:
            _fill(stack)
        case ["large"]:
            _large(stack)
        case ["topic-off"]:
            Topic(stack).remove()
            print("The topic is gone: announcements fail.")
        case ["topic-on"]:
            Topic(stack).restore()
            print("The topic is back.")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
