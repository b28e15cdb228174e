"""Tables and charts for the cost page; what stands between its marks is made here."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from infra.cost.inputs import Inputs
from infra.cost.model import (
    Bill,
    Line,
    behind_gateways,
    bill,
    consumer_seconds,
    one_page_a_call,
    own_bill,
    waiting_for_schedules,
)
from infra.cost.peers import PUBLISHED
from infra.cost.shapes import COMPARED, Shape, shape_of

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "how-it-works" / "cost.md"
BEGIN: Final = "<!-- what follows is written by `make cost ARGS=--write` -->"
END: Final = "<!-- until here -->"

#: Pages a month at which the whole is compared.
VOLUMES: Final = (1_000_000, 10_000_000, 100_000_000, 300_000_000)
#: The volume of the chart.
_CHARTED: Final = 100_000_000
#: What is more would make the others invisible.
_CHART_MOST: Final = 10.0
_MILLION: Final = 1_000_000


def bills_of(inputs: Inputs) -> tuple[list[Shape], list[Bill]]:
    """The stages that are compared and what they cost; the own machine comes last."""
    shapes = [shape_of(stage, inputs.assumed) for stage in COMPARED]
    return shapes, [*(bill(inputs, shape) for shape in shapes), own_bill(inputs)]


def written(inputs: Inputs) -> str:
    """Return the text between the marks of the cost page."""
    return "\n\n".join(_parts(inputs))


def put_into(page: str, made: str) -> str:
    """The page with that between its marks.

    Raises:
        ValueError: the page has no marks.
    """
    head, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, tail = rest.partition(f"\n{END}")
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN!r} with {END!r} behind it")
    return f"{head}{begin}\n{made}\n{end}{tail}"


def dollars(usd: float) -> str:
    """An amount as people write it.

    >>> [dollars(usd) for usd in (0.0, 0.004, 0.12, 57.6, 1234.0)]
    ['$0', 'below $0.01', '$0.12', '$57.60', '$1,234']
    """
    if usd <= 0:
        return "$0"
    if usd < 0.01:
        return "below $0.01"
    return f"${usd:,.2f}" if usd < 1_000 else f"${usd:,.0f}"


def _parts(inputs: Inputs) -> Iterator[str]:
    shapes, bills = bills_of(inputs)
    about = inputs.about
    yield (
        f"Prices: {about.region}, as they were listed in {about.as_of:%B %Y}, without free tiers; "
        f"from the {about.source}."
    )
    yield "### A million pages, and nothing else"
    yield _table(bills[:-1], [one.by_pages for one in bills[:-1]])
    yield _gateways(inputs, shapes[-1])
    yield "### A month without a page"
    yield _table(bills, [one.by_month for one in bills])
    yield _schedules(inputs, shapes[0])
    yield (
        f"While there is work, each hour of it adds its share of {_work(bills[0])} a month: "
        f"{_reported(bills[0].by_work)}."
    )
    yield "### A million pages with their share of the month"
    yield _volumes(bills)
    yield _capacity(bills)
    yield "### Beside what others have published"
    yield _peers(inputs, bills, shapes[0])
    yield _chart(inputs, bills, shapes[0])


def _schedules(inputs: Inputs, shape: Shape) -> str:
    month = waiting_for_schedules(inputs, shape)
    return (
        "Schedules run at their time: the scheduler waits for one that is due before its next "
        f"tick, {inputs.assumed.due_seconds:g} s on average. A schedule for every minute is "
        f"{dollars(month)} more a month, one for every hour {dollars(month / 60)}."
    )


def _table(bills: Sequence[Bill], parts: Sequence[Sequence[Line]]) -> str:
    names = list(dict.fromkeys(line.what for lines in parts for line in lines))
    rows = [_row(["line", *(one.name for one in bills), "assumption"])]
    rows.append("|---" * (len(bills) + 2) + "|")
    for name in names:
        found = [next((line for line in lines if line.what == name), None) for lines in parts]
        hows = dict.fromkeys(line.how for line in found if line is not None)
        amounts = ["" if line is None else dollars(line.usd) for line in found]
        rows.append(_row([name, *amounts, "; ".join(hows)]))
    sums = [sum(line.usd for line in lines) for lines in parts]
    rows.append(_row(["**together**", *(f"**{dollars(usd)}**" for usd in sums), ""]))
    return "\n".join(rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _gateways(inputs: Inputs, shape: Shape) -> str:
    gateways = bill(inputs, behind_gateways(shape))
    instances = bill(inputs, shape)
    more = gateways.for_pages - instances.for_pages
    month = gateways.idle_month - instances.idle_month
    return (
        f"With NAT gateways in place of instances `{shape.name}` would cost {dollars(more)} more a "
        f"million pages and {dollars(month)} more a month."
    )


def _reported(lines: Sequence[Line]) -> str:
    return "; ".join(f"{line.what}, {dollars(line.usd)} ({line.how})" for line in lines)


def _work(one: Bill) -> str:
    return dollars(sum(line.usd for line in one.by_work))


def _volumes(bills: Sequence[Bill]) -> str:
    rows = [_row(["pages a month", *(one.name for one in bills)]), "|---" * (len(bills) + 1) + "|"]
    for volume in VOLUMES:
        amounts = [share(one, volume) for one in bills]
        rows.append(_row([f"{volume / _MILLION:,.0f} million", *amounts]))
    return "\n".join(rows)


def share(one: Bill, volume: float) -> str:
    """A million pages with their share of the month, where it keeps up with so many."""
    return dollars(one.per_million(volume)) if volume <= one.most_a_month else "more than it holds"


def _capacity(bills: Sequence[Bill]) -> str:
    reported = "; ".join(
        f"{one.name} {one.most_a_month / _MILLION:,.0f} million, held up by {one.held_up_by}"
        for one in bills
    )
    return (
        f"At the most a month holds: {reported}. What sites and MongoDB's tier allow may be less."
    )


def _peers(inputs: Inputs, bills: Sequence[Bill], shape: Shape) -> str:
    rows = [_row(["who", "a million pages", "what", "source"]), "|---|---|---|---|"]
    for one in bills:
        usd = dollars(one.per_million(_CHARTED))
        what = f"everything, at {_CHARTED / _MILLION:,.0f} million pages a month"
        rows.append(_row([f"Crawlfleet, {one.name}", usd, what, "this page"]))
    each = dollars(one_page_a_call(inputs, shape))
    seconds = consumer_seconds(inputs, shape)
    rows.append(
        _row(
            [
                "one page a Lambda call",
                each,
                f"Lambda alone, 512 MB, where ours needs {seconds * 1_000:.1f} ms a page",
                "this model",
            ]
        )
    )
    rows += [
        _row([peer.who, dollars(peer.per_million), peer.what, peer.source]) for peer in PUBLISHED
    ]
    return "\n".join(rows)


def _chart(inputs: Inputs, bills: Sequence[Bill], shape: Shape) -> str:
    amounts = {one.name: one.per_million(_CHARTED) for one in bills}
    amounts["one page a call"] = one_page_a_call(inputs, shape)
    amounts |= {peer.who: peer.per_million for peer in PUBLISHED}
    shown = {name: usd for name, usd in amounts.items() if usd <= _CHART_MOST}
    beyond = [f"{name} {dollars(usd)}" for name, usd in amounts.items() if usd > _CHART_MOST]
    ordered = sorted(shown, key=lambda name: shown[name])
    title = f"dollars a million pages, at {_CHARTED / _MILLION:,.0f} million a month"
    names = ", ".join(f'"{name}"' for name in ordered)
    values = ", ".join(f"{shown[name]:.2f}" for name in ordered)
    lines = [f'title "{title}"', f"x-axis [{names}]", f"bar [{values}]"]
    drawn = "```mermaid\nxychart-beta\n    " + "\n    ".join(lines) + "\n```"
    return f"{drawn}\n\nBeyond the chart: {'; '.join(beyond)}." if beyond else drawn
