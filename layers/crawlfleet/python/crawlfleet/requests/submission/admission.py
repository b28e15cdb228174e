"""What of a submission is admitted, and as what (SPEC.md A1)."""

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.models import Body
from crawlfleet.requests.submission.job_names import RESERVED, is_reserved
from crawlfleet.requests.submission.models import Pin, Submission


class Admission:
    """The admission of one batch: rules are looked up, and their versions computed, once."""

    def __init__(self, biz: Biz) -> None:
        self._biz = biz
        self._versions: dict[str, str] = {}
        self._only = biz.readers[0] if len(biz.readers) == 1 else None

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules and spiders that admitted entries use."""
        return tuple(self._versions)

    def admit(
        self, submission: Submission, field: str = "", pin: Pin | None = None
    ) -> Body | list[Problem]:
        """The body that will be stored, or every mistake with its field's path.

        What was admitted before is admitted again, as ``pin`` says, whatever became of its rule.
        """
        if pin is not None:
            return _body(submission, pin)
        problems = []
        fault = problem_with(submission.url)
        if fault is not None:
            problems.append(Problem(f"{field}url", fault))
        if submission.job is not None and is_reserved(submission.job):
            # Under it a fire would find tasks that are not its own.
            problems.append(Problem(f"{field}job", RESERVED))
        rule = submission.rule or self._only
        if rule is None:
            names = ", ".join(self._biz.readers[:10])
            problems.append(Problem(f"{field}rule", f"is missing; this biz has: {names}"))
            return problems
        reader = self._biz.reader(rule)
        if reader is None:
            problems.append(Problem(f"{field}rule", f"this biz has no rule called {rule!r}"))
        if problems or reader is None:
            return problems
        if rule not in self._versions:
            self._versions[rule] = reader.version
        return _body(submission, Pin(rule, self._versions[rule]))


def _body(submission: Submission, pin: Pin) -> Body:
    return Body(
        url=submission.url,
        rule=pin.rule,
        rule_version=pin.version,
        method=submission.method,
        headers=submission.headers,
        params=submission.params,
        body=submission.body,
        meta=submission.meta,
    )
