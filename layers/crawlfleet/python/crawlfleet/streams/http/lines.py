"""Cut a stream of bytes into lines; one that is too long is skipped to its end."""


class Lines:
    """The lines of one connection. No more than a line and a piece of the stream is kept."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rest = bytearray()
        self._is_too_long = False
        #: Lines that were skipped.
        self.too_long = 0

    def feed(self, piece: bytes) -> list[bytes]:
        r"""Return the lines that end in a piece; empty ones, which keep connections, are left out.

        >>> lines = Lines(8)
        >>> lines.feed(b"one\r\n\r\ntw"), lines.feed(b"o\nmuch too "), lines.feed(b"long\n3\n")
        ([b'one'], [b'two'], [b'3'])
        >>> lines.too_long
        1
        """
        *ended, rest = piece.split(b"\n")
        found = []
        for part in ended:
            self._add(part)
            if line := self.end():
                found.append(line)
        self._add(rest)
        return found

    def end(self) -> bytes:
        """End the line that has begun, as at the end of a stream; return it, or nothing."""
        line = bytes(self._rest.strip())
        self.too_long += self._is_too_long
        self._rest.clear()
        self._is_too_long = False
        return line

    def _add(self, part: bytes) -> None:
        if self._is_too_long:
            return
        if len(self._rest) + len(part) > self._most_bytes + 1:  # the end may be of two characters
            self._rest.clear()
            self._is_too_long = True
        else:
            self._rest += part
