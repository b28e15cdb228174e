"""A configuration and a secret that stand as they were given: for programs that bring their own."""

from crawlfleet.model.biz import Tree


class StandingConfig:
    """A :class:`~crawlfleet.ports.ConfigCentre` whose tree never changes."""

    refused = None

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def current(self) -> Tree:
        """The tree."""
        return self._tree


class OneSecret:
    """A :class:`~crawlfleet.ports.SecretStore` in which everything is the same secret."""

    def __init__(self, value: str) -> None:
        self._value = value

    def read(self, _: str, /) -> str:
        """The secret, whatever it is called."""
        return self._value

    def forget(self, _: str, /) -> None:
        """It stands: the next one that is read is the same."""
