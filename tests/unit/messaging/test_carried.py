"""Which results a message carries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sagas.messaging.message import CARRY_LIMIT, MOST_CARRIED, CarriedInput, fitting


def result(seq: int, size: int) -> CarriedInput:
    """A result whose payload has so many bytes."""
    return CarriedInput(seq, f"hash{seq}", f"salt{seq}", "7" * size)


def test_what_fits_is_carried_in_order() -> None:
    small = [result(seq, 100) for seq in (3, 1, 2)]
    assert fitting(small) == (small[1], small[2], small[0])
    full = (result(1, CARRY_LIMIT - 1), result(2, 1))
    assert fitting(full) == full
    assert fitting(()) == ()


def test_the_largest_is_left_out_first_and_its_hash_stays() -> None:
    known = [result(1, 8_000), result(2, 9_000), result(3, 500), CarriedInput(4, "hash4")]
    assert fitting(known) == (known[0], CarriedInput(2, "hash2"), *known[2:])
    assert fitting(known, 499) == tuple(CarriedInput(one.seq, one.hash) for one in known)
    assert fitting([result(1, 10), result(2, 10)], 10) == (CarriedInput(1, "hash1"), result(2, 10))


def test_bytes_count_not_characters() -> None:
    euros = CarriedInput(1, "hash", "salt", '"€€"')
    assert fitting([euros], 8) == (euros,)
    assert fitting([euros], 7) == (CarriedInput(1, "hash"),)


def test_more_than_a_message_may_have_are_none() -> None:
    assert len(fitting(result(seq + 1, 1) for seq in range(MOST_CARRIED))) == MOST_CARRIED
    assert fitting(result(seq + 1, 1) for seq in range(MOST_CARRIED + 1)) == ()


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 50)), unique_by=lambda pair: pair[0]), st.integers(0, 99))
def test_no_smaller_one_is_left_out_before_a_larger_one(pairs: list[tuple[int, int]], limit: int) -> None:
    known = {seq: result(seq, size) for seq, size in pairs}
    carried = fitting(known.values(), limit)
    assert [(one.seq, one.hash) for one in carried] == [(seq, known[seq].hash) for seq in sorted(known)]
    kept = [len(one.payload) for one in carried if one.payload is not None]
    left = [len(known[one.seq].payload or "") for one in carried if one.payload is None]
    assert sum(kept) <= limit
    assert max(kept, default=0) <= min(left, default=limit)
    assert not left or sum(kept) + min(left) > limit or min(left) == 0
