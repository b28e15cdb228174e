"""Functions that the journey itself invokes: whoever looks for what rules do must not count it."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from crawlfleet.kernel import names
from infra.aws_access import Access
from infra.smoke.deployment import log_group
from infra.steps import StepError


class Hand:
    """Invokes functions, and remembers how often.

    Args:
        access: Where they are.
        stage: Whose they are.
    """

    def __init__(self, access: Access, stage: str) -> None:
        self._access = access
        self._stage = stage
        self.counts: Counter[str] = Counter()

    def invoke(self, function: str, event: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return a function's answer to an event; to an empty one where none is given.

        Raises:
            StepError: it fails.
        """
        self.counts[function] += 1
        answer = self._access.client("lambda").invoke(
            FunctionName=names.function_name(self._stage, function),
            Payload=json.dumps(event or {}).encode(),
        )
        content = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            raise StepError(
                f"the {function} fails: {content}",
                "Its log says where.",
                log_group(self._stage, function),
            )
        return dict(content)
