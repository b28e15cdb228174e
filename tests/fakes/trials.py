"""An in-memory fake runs steps of trials in this process."""

from collections.abc import Callable

import msgspec

from tests.kit.trials import Answer, Question


class MemoryTrials:
    """A ``Trials`` that asks ``answer``; ``asked`` lists the questions.

    Both travel as JSON here too: what does not survive that survives nowhere.
    """

    def __init__(self, answer: Callable[[Question], Answer]) -> None:
        self._answer = answer
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.asked.append(msgspec.json.decode(msgspec.json.encode(question), type=Question))
        answer = msgspec.json.encode(self._answer(self.asked[-1]))
        return msgspec.json.decode(answer, type=Answer)
