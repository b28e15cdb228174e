"""Whether the steps of a field make sense before anything compiles them (SPEC.md A3)."""

from collections.abc import Iterator, Sequence
from typing import Final

from crawlfleet.errors import Problem
from crawlfleet.model.step import NumberMarks, Step, Transform

#: Keys that several texts become one by.
_CLOSING: Final = frozenset({"join", "pick"})
_OPENING: Final = "split"


def gathers(transforms: Sequence[Transform]) -> bool:
    """Whether they join or pick before they split: then they do so with all matches of a field.

    >>> gathers((Step(join=" "),)), gathers((Step(split=","), Step(pick=0)))
    (True, False)
    """
    for step in transforms:
        if isinstance(step, Step):
            if step.split is not None:
                return False
            if _CLOSING.intersection(step.keys):
                return True
    return False


def step_problems(
    transforms: Sequence[Transform], path: str, *, several: bool
) -> Iterator[Problem]:
    """What is wrong with the steps at ``path``; ``several`` where a list may come of them."""
    many = not several and gathers(transforms)
    opened = 0
    for number, step in enumerate(transforms):
        place = f"{path}[{number}]"
        if not isinstance(step, Step):
            continue
        keys = step.keys
        if len(keys) != 1:
            said = f"not {' and '.join(keys)}" if keys else "not none"
            yield Problem(place, f"says one thing: {', '.join(Step.__struct_fields__)}; {said}")
            continue
        if step.number is not None:
            yield from _number_problems(step.number, f"{place}.number")
        if keys[0] == _OPENING:
            many, opened = True, number
        elif keys[0] in _CLOSING:
            if not many:
                yield Problem(f"{place}.{keys[0]}", "has one text only: split comes before it")
            many = False
    if many and not several:
        yield Problem(
            f"{path}[{opened}]",
            "leaves several texts: join or pick one after it, or make the field a list",
        )


def _number_problems(marks: NumberMarks, path: str) -> Iterator[Problem]:
    for name, mark in (("decimal", marks.decimal), ("thousands", marks.thousands)):
        if mark.isalnum() or mark in {"+", "-"}:
            yield Problem(f"{path}.{name}", "is no mark")
    if marks.decimal == marks.thousands:
        yield Problem(f"{path}.thousands", "is the decimal mark, too")
