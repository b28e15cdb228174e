"""Steps that somebody watches: the name of each, its seconds, what was seen; or what went wrong."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.markup import escape

#: Between two looks at something that is awaited.
LOOK_SECONDS: Final = 0.5


class StepError(RuntimeError):
    """A step has failed.

    Attributes:
        said: What is wrong, in a sentence.
        do: What to do next.
        log_group: Whose latest lines tell more; empty where none does.
        region: Where that log group is; empty where the stage is.
        quote: These lines, once somebody has read them.
    """

    def __init__(self, said: str, do: str, log_group: str = "", region: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.do = do
        self.log_group = log_group
        self.region = region
        self.quote = ""


class Warned(str):
    """Something seen that is no failure, and that somebody should mend."""

    __slots__ = ()


@dataclass(slots=True)
class Step:
    """A step under way: whoever does it tells what he sees."""

    name: str
    show: Callable[[str], None]
    seen: list[str] = field(default_factory=list)

    def saw(self, what: str) -> None:
        """Something to be shown beside the step for good; what is warned of, as such."""
        self.seen.append(what)
        self.show(", ".join(self.seen))

    def now(self, what: str) -> None:
        """Something to be shown until there is something newer."""
        self.show(", ".join([*self.seen, what]))


class Steps:
    """Shows each step on a line of its own, and a total at the end."""

    def __init__(
        self, console: Console, *, clock: Callable[[], float] = time.monotonic, verbose: bool = True
    ) -> None:
        self._console = console
        self._clock = clock
        self._verbose = verbose
        self._began = clock()
        self.count = 0

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Do one step in the block; whatever it raises goes on, after a line that says so."""
        began = self._clock()
        with self._console.status(escape(name)) as status:
            step = Step(name, lambda what: status.update(escape(f"{name}: {what}")))
            try:
                yield step
            except BaseException:
                self._line("[red]failed[/red]", step, began)
                raise
        self.count += 1
        warned = any(isinstance(one, Warned) for one in step.seen)
        self._line("[yellow]warned[/yellow]" if warned else "[green]ok[/green]    ", step, began)

    @property
    def seconds(self) -> float:
        """Since the first step."""
        return self._clock() - self._began

    def report(self, error: StepError) -> None:
        """Print what is wrong, what the log says, what to do next."""
        self._console.print(f"\n[red]{escape(error.said)}[/red]", soft_wrap=True, highlight=False)
        if error.quote:
            self._console.print(f"\nthe latest of {error.log_group}:", highlight=False)
            self._console.print(error.quote, soft_wrap=True, highlight=False, markup=False)
        self._console.print(f"\n{escape(error.do)}", soft_wrap=True, highlight=False)

    def _line(self, verdict: str, step: Step, began: float) -> None:
        took = self._clock() - began
        text = f"{verdict} {took:6.1f} s  {escape(step.name)}"
        if step.seen:
            text += f": [dim]{escape(', '.join(step.seen))}[/dim]"
        self._console.print(text, soft_wrap=True, highlight=False)


def wait_for(
    holds: Callable[[], bool],
    seconds: float,
    what: str,
    do: str,
    *,
    log_group: str = "",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look until it holds.

    Raises:
        StepError: the time is up.
    """
    deadline = clock() + seconds
    while not holds():
        if clock() >= deadline:
            raise StepError(f"{what}: not within {seconds:.0f} s", do, log_group)
        sleep(LOOK_SECONDS)
