"""Submissions to the world in memory, as the suites about repeating and room make them."""

from msgspec.structs import replace

from tests.kit.config import Field, Rule
from tests.kit.kernel import InvalidRequestError
from tests.kit.requests import Receipt, RequestFilter, State, Submission
from tests.kit.worlds.memory import DOCS, World, make_tree

EDITED = Rule(fields={"title": Field(css="h1")})


def entry(number: int, client_id: str | None = None, **changes: object) -> Submission:
    facts: dict = {"url": f"https://example.org/{number}", "rule": "page", "client_id": client_id}
    return Submission(**(facts | changes))


def send(
    world: World,
    *entries: Submission | InvalidRequestError,
    key: str | None = None,
    tenant: str = "default",
    single: bool = False,
    **changes: object,
) -> list[Receipt]:
    ports = world.submission(**changes)
    return ports.submit(world.tree, tenant, "docs", entries, world.now, single=single, key=key)


def ids(receipts: list[Receipt]) -> list:
    return [receipt.id for receipt in receipts]


def stored(world: World) -> int:
    return sum(
        len(world.store.find(DOCS, world.biz, RequestFilter(state=state), limit=999, now=world.now))
        for state in (State.PENDING, State.LEASED, State.DONE)
    )


def edit_rules(world: World, **rules: Rule) -> None:
    world.tree = make_tree(replace(world.biz, rules=rules))
