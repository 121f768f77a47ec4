"""Which keys can be unpacked, and which would overwrite each other."""

from __future__ import annotations

import pytest

from functions.archive_names import archive_names


def test_a_key_is_its_own_path_without_leading_slashes() -> None:
    assert archive_names(["a.txt", "/b/c.txt", "b/c d.txt", "été"]) == ["a.txt", "b/c.txt", "b/c d.txt", "été"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", "a"], "'a' occurs twice"),
        (["a", "/a"], "'/a' and 'a' collide"),
        (["A.txt", "a.TXT"], "collide"),
        (["\u00e9", "e\u0301"], "collide"),
        (["a/b", "x", "a"], "'a' is a file, and the folder of 'a/b'"),
        (["a", "A/b/c"], "'a' is a file, and the folder of 'A/b/c'"),
    ],
)
def test_keys_that_overwrite_each_other_are_refused(keys: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        archive_names(keys)


@pytest.mark.parametrize("key", ["", "/", "a/", "a//b", "../a", "a/../b", "./a", "a\\b", "a\nb", "a\x00b", "a\x7f"])
def test_keys_that_cannot_be_unpacked_safely_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="cannot be the path"):
        archive_names(["fine", key])
