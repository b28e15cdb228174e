"""Submissions that go on while something else happens."""

import itertools
import threading
from collections.abc import Sequence
from typing import Final, Self

from crawlfleet.sdk import Client

_PAUSE_SECONDS: Final = 0.5
_AT_ONCE: Final = 5
_END_SECONDS: Final = 90.0


class Load:
    """Puts pages in, some a second, as long as the block lasts; the SDK repeats what fails.

    Args:
        client: The API's.
        biz: Whose they are.
        rule: How they are read.
        urls: The pages, over and over.
    """

    def __init__(self, client: Client, biz: str, rule: str, urls: Sequence[str]) -> None:
        self._client = client
        self._biz = biz
        self._rule = rule
        self._urls = itertools.cycle(urls)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="load", daemon=True)
        self.ids: list[str] = []
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_END_SECONDS)

    def _work(self) -> None:
        while not self._ended.wait(_PAUSE_SECONDS):
            urls = list(itertools.islice(self._urls, _AT_ONCE))
            try:
                answers = self._client.submit(self._biz, urls, rule=self._rule)
            except Exception as error:  # noqa: BLE001  all of them are counted, none ends the load
                self.failures.append(f"{type(error).__name__}: {error}")
                continue
            self.ids += [answer.id for answer in answers if answer.id is not None]
            self.failures += [str(answer.error) for answer in answers if answer.id is None]
