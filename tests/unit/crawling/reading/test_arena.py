"""Bodies laid in shared memory: none overlaps another that is still to be read."""

import os
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.reading import ARENA_BYTES, Arena

SIZES = st.integers(1, ARENA_BYTES // 4)


@given(st.lists(st.one_of(SIZES, st.none()), max_size=60))
def test_no_two_bodies_that_are_still_to_be_read_share_a_byte(steps):
    arena, laid = Arena(), deque()
    try:
        for step in steps:
            if step is None:
                if laid:
                    laid.popleft()
                    arena.free()
                continue
            place = arena.lay(b"x" * step)
            assert place is not None or laid, "there is room for any body in an empty arena"
            if place is None:
                continue
            assert 0 <= place <= ARENA_BYTES - step
            assert all(place + step <= at or place >= at + size for at, size in laid)
            laid.append((place, step))
    finally:
        arena.close()


def test_a_reader_cannot_cut_off_what_its_worker_writes_to():
    arena = Arena()
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(arena.fd, 0)
    finally:
        arena.close()
