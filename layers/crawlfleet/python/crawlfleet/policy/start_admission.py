"""Whether a start's URLs may be submitted at all (SPEC.md A1, C2)."""

from crawlfleet.errors import Problem
from crawlfleet.model.biz import Biz
from crawlfleet.model.request import Body
from crawlfleet.model.start import Start
from crawlfleet.model.submission import Submission
from crawlfleet.policy.admission import Admission
from crawlfleet.policy.starting import bind, open_places, size, url_at

#: What stands in a place that is still open while the rest is looked at.
_STAND_IN = "0"


def refused(biz: Biz, rule: str, start: Start) -> list[Problem]:
    """What admission finds wrong: with every URL, or with both ends of a pattern.

    A pattern with open places is looked at with something harmless in them.
    """
    start, _ = bind(start, dict.fromkeys(open_places(start), _STAND_IN))
    admission = Admission(biz)
    count = size(start)
    indices = range(count) if start.pattern is None else sorted({0, count - 1})
    found: list[Problem] = []
    for index in indices:
        path = f"start.urls[{index}]." if start.pattern is None else "start.pattern."
        admitted = admission.admit(Submission(url=url_at(start, index), rule=rule), path)
        if isinstance(admitted, Body):
            continue
        found += [
            Problem("rule", problem.message)
            if problem.field.endswith(".rule")
            else Problem(problem.field.removesuffix(".url"), problem.message)
            for problem in admitted
        ]
    return list(dict.fromkeys(found))
