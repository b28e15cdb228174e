"""The OpenAPI document, as the router answered it, as a judge of the router's answers."""

from typing import Self

from tests.functions.http import Answer, ask
from tests.kit.worlds.functions import World
from tests.open_api import ApiDocument


class Document(ApiDocument):
    """``/openapi.json`` as it was answered."""

    @classmethod
    def of(cls, world: World) -> Self:
        """Ask for it."""
        answer = ask(world, "GET", "/openapi.json", key=None)
        assert answer.status == 200
        return cls(answer.json)

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Refuse an answer that the document does not describe."""
        kind = answer.headers.get("Content-Type", "")
        self.hold_answer(method, path, answer.status, kind, answer.text)
