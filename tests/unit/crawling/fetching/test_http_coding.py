"""Decoding piece by piece gives what decoding whole gives, however the bytes are cut."""

import gzip
import importlib
import zlib

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.fetching import CODINGS, BadCodingError, BodyDecoder
from tests.kit.kernel import TooLargeError

PACKERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: importlib.import_module("brotli").compress(data),
    "zstd": lambda data: importlib.import_module("backports.zstd").compress(data),
}


def _cut(data, length):
    return [data[at : at + length] for at in range(0, len(data), length)]


@pytest.mark.parametrize("coding", sorted(CODINGS))
@pytest.mark.parametrize("piece", [1, 16, 1 << 18])
@examples(0.4, suppress_health_check=list(HealthCheck))
@given(
    parts=st.lists(st.tuples(st.binary(max_size=20), st.integers(1, 200)), max_size=4),
    length=st.integers(1, 300),
)
def test_pieces_join_to_the_whole(coding, piece, parts, length):
    whole = b"".join(part * times for part, times in parts)
    packed = PACKERS[coding](whole)

    decoder = BodyDecoder(coding, len(whole), piece=piece)
    decoded = b"".join(out for cut in _cut(packed, length) for out in decoder.feed(cut))
    decoder.finish()

    assert decoded == whole


@pytest.mark.parametrize("coding", sorted({"gzip", "zstd"} & set(CODINGS)))
@pytest.mark.parametrize("length", [1, 2, 7, 1_000])
def test_members_are_joined_wherever_they_are_cut(coding, length):
    packed = PACKERS[coding](b"hel") + PACKERS[coding](b"") + PACKERS[coding](b"lo")
    decoder = BodyDecoder(coding, 5)

    assert b"".join(out for cut in _cut(packed, length) for out in decoder.feed(cut)) == b"hello"
    decoder.finish()


@pytest.mark.parametrize("coding", sorted({"gzip", "zstd"} & set(CODINGS)))
def test_members_are_counted(coding):
    decoder = BodyDecoder(coding, 5)

    with pytest.raises(BadCodingError, match="more than"):
        list(decoder.feed(PACKERS[coding](b"") * 1_001))


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_stream_that_ends_early_is_noticed(coding):
    decoder = BodyDecoder(coding, 9_999)
    list(decoder.feed(PACKERS[coding](b"hello" * 99)[:-1]))

    with pytest.raises(BadCodingError, match="too early"):
        decoder.finish()


def test_no_stage_grows_beyond_the_limit():
    inner = gzip.compress(b"") * 900
    decoder = BodyDecoder("gzip, gzip", len(inner) - 1)

    with pytest.raises(TooLargeError, match=r"\(fetch.max_body_bytes\)"):
        list(decoder.feed(gzip.compress(inner)))
