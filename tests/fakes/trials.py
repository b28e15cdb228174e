"""Trials in one process: what :class:`crawlfleet.adapters.lambda_functions.LambdaTrials` does."""

from collections.abc import Callable

import msgspec

from tests.kit.trials import Question, Tried


class MemoryTrials:
    """A :class:`~crawlfleet.ports.Trials` that asks ``answer``; ``asked`` lists the questions.

    Both travel as JSON here too: what does not survive that survives nowhere.
    """

    def __init__(self, answer: Callable[[Question], Tried]) -> None:
        self._answer = answer
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Tried:
        """See ports.Trials.ask."""
        self.asked.append(msgspec.json.decode(msgspec.json.encode(question), type=Question))
        answer = msgspec.json.encode(self._answer(self.asked[-1]))
        return msgspec.json.decode(answer, type=Tried)
