"""Ports of which a call goes wrong, once: its process dies, or its part does not answer."""

from collections.abc import Callable

from tests.kit.kernel import StoreUnavailableError


class DiedError(Exception):
    """The process is gone."""


class Trouble:
    """Ports of which one call, counted over all of them, is the one at which something happens."""

    def __init__(self, at: int, what: str, meanwhile: Callable[[], None]) -> None:
        self.at, self.what, self.meanwhile = at, what, meanwhile

    def around(self, port: object) -> object:
        trouble = self

        class Port:
            def __getattr__(self, name: str) -> object:
                return lambda *args, **named: trouble.call(getattr(port, name), *args, **named)

        return Port()

    def call(self, function: Callable[..., object], *args: object, **named: object) -> object:
        self.at -= 1
        if self.at != 0:
            return function(*args, **named)
        if self.what == "dies before":
            raise DiedError
        if self.what == "away":
            raise StoreUnavailableError("test", "no answer")
        if self.what == "another meanwhile":
            self.meanwhile()
        answer = function(*args, **named)
        if self.what == "dies after":
            raise DiedError
        if self.what == "unanswered":
            raise StoreUnavailableError("test", "the answer is lost")
        return answer


class KilledError(BaseException):
    """The process is gone: nothing catches that."""


class Kill(Trouble):
    """Ports of which one call is the process' last."""

    def call(self, function, *args, **named):
        try:
            return super().call(function, *args, **named)
        except DiedError:
            raise KilledError from None
