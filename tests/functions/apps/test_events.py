"""Every payload of ``events/`` through its handler; ``events/README.md`` tells the format."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.functions.http import Answer
from tests.functions.open_api import Document
from tests.kit.kernel import names
from tests.kit.worlds.functions import World

EVENTS = Path(__file__).parents[3] / "events"
CASES = sorted(
    f"{path.parent.name}/{path.stem}" for path in EVENTS.glob("*/*.json") if path.is_file()
)
_PLACE = re.compile(r"{{([a-z0-9-]+)\.([a-z_]+)}}")

ANY = "..."


def load(case: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((EVENTS / f"{case}.json").read_text())
    return content


def payload(case: dict[str, Any], answers: dict[str, Any]) -> Any:
    """The event with the answers of earlier cases in their places, and grown where it is large."""

    def fill(match: re.Match[str]) -> str:
        return str(answers[match[1]][match[2]])

    event = case["event"]
    if "given" in case:
        event = json.loads(_PLACE.sub(fill, json.dumps(event)))
    if "grow" in case:
        grow = case["grow"]
        whole = grow.get("between", "").join([grow["text"]] * grow["times"])
        event = {**event, "body": event["body"].replace("@", whole)}
    return event


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Return the differences; objects may have more fields than expected, lists no more items."""
    if expected == ANY:
        return [] if found is not None else [f"{place} is None"]
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{place}.{name} is missing" for name in expected.keys() - found.keys()]
        return missing + [
            difference
            for name in expected.keys() & found.keys()
            for difference in differences(expected[name], found[name], f"{place}.{name}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [d for index, (e, f) in pairs for d in differences(e, f, f"{place}[{index}]")]
    same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
    return [] if same else [f"{place} is {found!r}, not {expected!r}"]


def run_router(world: World, case: dict[str, Any], answers: dict[str, Any]) -> Answer:
    return Answer(world.call(names.ROUTER, payload(case, answers)))


def given(world: World, case: dict[str, Any]) -> dict[str, Any]:
    """Run the cases that come before; their answers by name, and the tenants' names."""
    answers: dict[str, Any] = {"tenants": world.tenants}
    for earlier in case.get("given", ()):
        name = earlier.removeprefix("router/")
        before = load(f"router/{name}")
        answer = run_router(world, before, answers)
        assert answer.status == before["expect"]["status"], answer.text
        answers[name] = answer.json if answer.text else None
    return answers


def of(function: str) -> Any:
    return pytest.mark.parametrize("case", [c for c in CASES if c.startswith(f"{function}/")])


def test_every_function_has_cases_and_every_case_a_function():
    assert {case.split("/")[0] for case in CASES} == set(names.FUNCTIONS)
    assert sum(case.startswith("router/") for case in CASES) >= 40
    assert all(set(load(case)) <= {"about", "given", "grow", "event", "expect"} for case in CASES)


@pytest.fixture(scope="module")
def document(standing_world: World) -> Document:
    return Document.of(standing_world)


def is_refused(case: str) -> bool:
    """Tell whether nothing comes of it, whatever there was before."""
    content = load(case)
    return content["expect"].get("status", 0) >= 400 and "given" not in content


@of(names.ROUTER)
def test_the_router_answers_as_the_case_says(request, standing_world, document, case):
    # What is refused changes nothing, so it needs no world of its own.
    world = standing_world if is_refused(case) else request.getfixturevalue("world")
    content = load(case)
    answers = given(world, content)
    stored, keys = world.stored(), sorted(world.redis_keys())
    world.lambdas.woken.clear()

    answer = run_router(world, content, answers)

    expect = json.loads(
        _PLACE.sub(lambda m: str(answers[m[1]][m[2]]), json.dumps(content["expect"]))
    )
    assert answer.status == expect["status"], answer.text
    document.check(content["event"]["httpMethod"], content["event"]["path"], answer)
    for name, value in expect.get("headers", {}).items():
        assert answer.headers[name] == value
    if "body" in expect:
        assert differences(expect["body"], answer.json) == []
    if "type" in expect:
        assert answer.json["type"] == expect["type"]
    if "fields" in expect:
        assert sorted(answer.fields) == sorted(expect["fields"]), answer.text
    for word in expect.get("silent", ()):
        assert word not in answer.text
    assert world.stored() - stored == expect.get("stored", 0)
    if answer.status >= 400:
        assert sorted(world.redis_keys()) == keys, "nothing is stored after a 4xx"
        assert world.lambdas.woken == []
    if "wakes" in expect:
        assert world.lambdas.woken == [names.CONSUMER] * expect["wakes"]


@pytest.mark.parametrize("case", [c for c in CASES if not c.startswith("router/")])
def test_the_function_answers_as_the_case_says(world, case):
    content = load(case)
    answers = given(world, content)
    expect = content["expect"]
    event = payload(content, answers)

    if "error" in expect:
        with pytest.raises(Exception, match=expect["error"]["names"]) as caught:
            world.call(case.split("/")[0], event)
        assert type(caught.value).__name__ == expect["error"]["type"]
        return
    answer = world.call(case.split("/")[0], event)

    assert differences(expect["answer"], answer) == []
    if "ids" in expect:
        ids = {*answer["ids"], *(first + n for first, size in answer["runs"] for n in range(size))}
        assert len(ids) == expect["ids"]
