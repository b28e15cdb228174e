"""The rules of Redis users, as the docs hand them to operators."""

import tomllib
from pathlib import Path

USERS = tomllib.loads((Path(__file__).parents[2] / "docs/reference/redis-users.toml").read_text())


def rules_of(user: str, *further: str, **names: str) -> list[str]:
    """A user's rules, and those of further uses, with names in their places."""
    found = " ".join(USERS[user][use] for use in ("rules", *further))
    for place, name in names.items():
        found = found.replace(place, name)
    return found.split()
