"""Lines of a stream, whatever pieces they come in."""

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.streams import Lines

MOST = 20


@given(st.lists(st.binary(max_size=40)), st.data())
def test_lines_are_the_same_in_whatever_pieces_they_come(said, data):
    stream = b"\n".join(said)
    lines, found = Lines(MOST), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += lines.feed(stream[:size])
        stream = stream[size:]
    if rest := lines.end():
        found.append(rest)

    every = b"\n".join(said).split(b"\n")
    assert found == [line.strip() for line in every if len(line) <= MOST + 1 and line.strip()]
    assert lines.too_long == sum(len(line) > MOST + 1 for line in every)


def test_a_line_that_never_ends_takes_no_more_than_its_bound():
    lines = Lines(MOST)
    for _ in range(1_000):
        assert lines.feed(b"x" * MOST) == []

    assert len(lines._rest) <= MOST + 1
    assert (lines.end(), lines.too_long) == (b"", 1)
