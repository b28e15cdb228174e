"""References to secrets in documents; their texts are in Secrets Manager alone (SPEC.md D13).

``{secret: NAME}`` stands for the text of the tenant's secret of that name
(:func:`crawlfleet.kernel.names.tenant_secret`). Workers put it in where it is used; what is stored,
shown and logged is the reference.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta

from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.validation import Document, HostName, Words, join

#: No slash: a tenant's secrets are below a prefix of its own.
_NAME: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_WORDS: Final = "up to 64 letters, digits, _, . and -, a letter or a digit first"
SecretName = Annotated[str, Meta(pattern=_NAME.pattern), Words(_WORDS)]
_KEY: Final = "secret"


class Secret(Document, frozen=True, kw_only=True):
    """The text of a secret as a header's value.

    It is sent to ``hosts`` and their subdomains alone; to every host that the biz asks where none
    is named. A redirect to another origin never takes it along.
    """

    secret: SecretName
    hosts: Annotated[tuple[HostName, ...], Meta(max_length=64)] = ()

    def is_for(self, host: str) -> bool:
        """Tell whether it is sent to a host.

        >>> api = Secret(secret="token", hosts=("api.example",))
        >>> api.is_for("eu.api.example"), api.is_for("notapi.example"), api.is_for("other.example")
        (True, False, False)
        """
        return not self.hosts or any(host == own or host.endswith(f".{own}") for own in self.hosts)


HeaderText: TypeAlias = str | Secret
HeaderName = Annotated[
    str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}\Z"), Words("a header's name")
]
_PRINTED = Annotated[
    str, Meta(pattern=r"^[\t -~]{0,4096}\Z"), Words("printed ASCII, up to 4,096 characters")
]


class StageSecret(Document, frozen=True, kw_only=True):
    """The text of a secret of the stage's own as a header's value."""

    secret: SecretName


StageHeaderText: TypeAlias = _PRINTED | StageSecret


def references(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """List the secrets that parameters refer to, at whatever depth, with the references' places.

    >>> list(references({"login": {"token": {"secret": "api"}}, "keys": [1, {"secret": "b"}]}))
    [('login.token', 'api'), ('keys[1]', 'b')]
    """
    if (name := _name(value)) is not None:
        yield place, name
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from references(inner, join(place, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from references(inner, f"{place}[{index}]")


def problems_with(value: Any) -> Iterator[Problem]:
    """Find references whose name no secret has."""
    for place, name in references(value):
        if not _NAME.match(name):
            yield Problem(join(place, _KEY), f"expected {_WORDS}")


def filled_with(value: Any, texts: Mapping[str, str]) -> Any:
    """Return parameters with the texts of their secrets in the place of the references.

    >>> filled_with({"token": {"secret": "api"}, "pages": [1]}, {"api": "s3cr3t"})
    {'token': 's3cr3t', 'pages': [1]}
    """
    if (name := _name(value)) is not None:
        return texts.get(name, value)
    if isinstance(value, Mapping):
        return {key: filled_with(inner, texts) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [filled_with(inner, texts) for inner in value]
    return value


def _name(value: Any) -> str | None:
    """Return the name in a reference; None for whatever else it is."""
    if isinstance(value, Mapping) and len(value) == 1:
        name = value.get(_KEY)
        return name if isinstance(name, str) else None
    return None
