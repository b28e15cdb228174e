"""Decode a page's ``Content-Encoding`` piece by piece, so that no answer exceeds its bound.

aiohttp can do this by itself, but then stacked codings come through undecoded and a gzip stream
that was cut off passes for a whole one; and how much memory it takes depends on its version.
"""

import importlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol

from crawlfleet.kernel.errors import TooLargeError

#: What bounds a body, as an error names it.
SIZE_SETTING: Final = "fetch.max_body_bytes"

#: About how large a piece of decoded body is before it is counted.
PIECE_BYTES: Final = 256 * 1024
#: Parts of one concatenated gzip stream; each costs a copy of what follows it.
MAX_MEMBERS: Final = 1_000
#: Codings stacked on one answer; honest sites send two at most.
MAX_CODINGS: Final = 4
#: RFC 9659: over HTTP a zstd window is at most 8 MB (2^23).
_ZSTD_WINDOW_LOG: Final = 23


class BadCodingError(Exception):
    """The body does not match its ``Content-Encoding``, or ends too early."""


class Decoder(Protocol):
    """Decode one coding of one answer."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces of the next bytes, each within the decoder's bound.

        Raises BadCodingError if the bytes are not of this coding.
        """
        ...

    def finish(self) -> None:
        """End the body; BadCodingError if it ended too early."""
        ...


class _Members:
    """Decode gzip (one or several members), zlib streams, and the bare deflate of some servers."""

    def __init__(self, piece: int, wbits: int, *, many: bool) -> None:
        self._piece, self._wbits, self._many = piece, wbits, many
        self._left = MAX_MEMBERS
        self._inflate: Any = None  # zlib gives its type no public name

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflate is None:
                self._begin(data)
            if self._inflate.eof:
                if not self._many or data[0] != 0x1F:
                    return  # padding after the end, as browsers ignore it
                self._begin(data)
            piece = self._next(data)
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            if piece:
                yield piece
            while len(piece) == self._piece and not data and not self._inflate.eof:
                piece = self._next(b"")  # zlib took all input and had no room for its output
                if piece:
                    yield piece

    def _next(self, data: bytes) -> bytes:
        try:
            piece: bytes = self._inflate.decompress(data, self._piece)
        except zlib.error as error:
            raise BadCodingError(str(error)) from error
        return piece

    def _begin(self, data: bytes) -> None:
        if not self._left:
            raise BadCodingError(f"more than {MAX_MEMBERS} gzip members")
        self._left -= 1
        bare = self._wbits == zlib.MAX_WBITS and data[0] & 0x0F != 8
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS if bare else self._wbits)

    def finish(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise BadCodingError("the compressed stream ends too early")


#: Decoders by the coding's name on the wire. ``br`` and ``zstd`` join below.
CODINGS: Final[dict[str, Callable[[int], Decoder]]] = {
    "gzip": partial(_Members, wbits=16 + zlib.MAX_WBITS, many=True),
    "deflate": partial(_Members, wbits=zlib.MAX_WBITS, many=False),
}


def _optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


brotli = _optional("brotli")
if hasattr(getattr(brotli, "Decompressor", None), "can_accept_more_data"):  # 1.2: bounded output

    class _Brotli:
        def __init__(self, piece: int) -> None:
            self._piece = piece
            self._decompressor = brotli.Decompressor()
            self._began = False

        def feed(self, data: bytes) -> Iterator[bytes]:
            self._began = self._began or bool(data)
            while not self._decompressor.is_finished():
                try:
                    piece = self._decompressor.process(data, output_buffer_limit=self._piece)
                except brotli.error as error:
                    raise BadCodingError(str(error)) from error
                if not piece:
                    return
                data = b""  # it may hold output back even where it says it accepts more input
                yield piece

        def finish(self) -> None:
            if self._began and not self._decompressor.is_finished():
                raise BadCodingError("the compressed stream ends too early")

    CODINGS["br"] = _Brotli

zstd = _optional("backports.zstd")
if zstd is not None:

    class _Zstd:
        def __init__(self, piece: int) -> None:
            self._piece = piece
            self._left = MAX_MEMBERS
            self._frame: Any = None

        def feed(self, data: bytes) -> Iterator[bytes]:
            while data or (self._frame and not (self._frame.eof or self._frame.needs_input)):
                if self._frame is None or self._frame.eof:
                    self._begin()
                try:
                    piece = self._frame.decompress(data, self._piece)
                except zstd.ZstdError as error:
                    raise BadCodingError(str(error)) from error
                data = self._frame.unused_data if self._frame.eof else b""
                if piece:
                    yield piece

        def _begin(self) -> None:
            if not self._left:
                raise BadCodingError(f"more than {MAX_MEMBERS} zstd frames")
            self._left -= 1
            limit = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
            self._frame = zstd.ZstdDecompressor(options=limit)

        def finish(self) -> None:
            if self._frame is not None and not self._frame.eof:
                raise BadCodingError("the compressed stream ends too early")

    CODINGS["zstd"] = _Zstd

#: The request header that offers them.
ACCEPT_ENCODING: Final = ", ".join(CODINGS)


class BodyDecoder:
    """Decode all codings of one answer; no stage may grow beyond ``limit`` bytes.

    Names that are no coding (``utf-8``, ``none``) are skipped, as browsers do. ``piece`` bytes are
    decoded at once. Raises BadCodingError if too many codings are stacked.
    """

    def __init__(self, content_encoding: str, limit: int, *, piece: int = PIECE_BYTES) -> None:
        names = [name.strip().lower().removeprefix("x-") for name in content_encoding.split(",")]
        known = [CODINGS[name] for name in reversed(names) if name in CODINGS]
        if len(known) > MAX_CODINGS:
            raise BadCodingError(f"more than {MAX_CODINGS} codings")
        self._stages = [make(piece) for make in known]
        self._sizes = [0] * len(known)
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces of the next bytes.

        Raises BadCodingError if they are not of the coding, TooLargeError if a stage grows too far.
        """
        return self._through(0, self._stages, data)

    def _through(self, number: int, stages: Sequence[Decoder], data: bytes) -> Iterator[bytes]:
        if number == len(stages):
            yield data
            return
        for piece in stages[number].feed(data):
            self._sizes[number] += len(piece)
            if self._sizes[number] > self._limit:
                most = f"{self._limit:,} bytes ({SIZE_SETTING})"
                raise TooLargeError(f"the decoded body is larger than {most}")
            yield from self._through(number + 1, stages, piece)

    def finish(self) -> None:
        """End the body; BadCodingError if it ended too early."""
        for stage in self._stages:
            stage.finish()
