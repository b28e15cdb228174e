"""Explain why no page has led to a URL (SPEC.md H6): by each ``follow`` of the biz's rules.

What a page refuses is not kept. But which pages were read is, with their depth, and the rules say
what would become of a link to the URL on each of them: so each ``follow`` is asked again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Follow, Reach
from crawlfleet.crawling.extract import links
from crawlfleet.crawling.extract.limits import UnreadableError
from crawlfleet.crawling.extract.regex import RegexQuery
from crawlfleet.kernel.advice import filled
from crawlfleet.requests.models import Body

#: How one looks at the links of a page.
_TRY_IT: Final = "`crawlfleet rule try RULE URL --remote --biz BIZ`"
#: Hosts that a sentence names.
_HOSTS: Final = 3


def why_not_followed(
    biz: str, document: Biz, url: str, pages: Sequence[Body], wanted: str | None = None
) -> Iterator[str]:
    """Say by the pages that were read why none of them led to the URL: the answer first.

    Only each ``follow`` of a rule that has read some is asked; with ``wanted`` only those whose
    links that rule reads.
    """
    own = url.partition("#")[0]
    followed: list[_Follows] = []
    refused: dict[str, list[str]] = defaultdict(list)
    for rule, reader in sorted(document.rules.items()):
        read = [page for page in pages if page.rule == rule and page.url != own]
        for number, follow in enumerate(reader.follow if read else ()):
            if wanted not in {None, follow.rule or rule}:
                continue
            where = f"rule {rule}, follow[{number}]"
            reasons, found = _asked(follow, own, read)
            if found:
                followed.append(_Follows(where, rule, follow, found, len(read)))
            if reasons:
                refused["; ".join(reasons)].append(where)
    if followed:
        yield _not_found(biz, followed)
    for reason, places in refused.items():
        some = any(one.where in places for one in followed)
        others = " from the other pages" if some else ""
        yield f"By {' and '.join(places)} no link to it is followed{others}: {reason}."


class _Follows(NamedTuple):
    """A ``follow`` by which a link is followed ``found`` on these pages, of so many."""

    where: str
    rule: str
    follow: Follow
    found: Sequence[Body]
    read: int


def _not_found(biz: str, followed: Sequence[_Follows]) -> str:
    """Say that no page links to it, and how to look at one."""
    alike: dict[str, list[str]] = defaultdict(list)
    for one in followed:
        pages = (
            f"from {len(one.found):,} of {one.read:,} pages that were read, among the "
            f"first {one.follow.limit:,} links that its selector finds there"
            f"{', without nofollow' if one.follow.obey_nofollow else ''}"
        )
        alike[pages].append(one.where)
    places = " and by ".join(f"{', '.join(where)} ({said})" for said, where in alike.items())
    known = {"RULE": followed[0].rule, "URL": followed[0].found[-1].url, "BIZ": biz}
    return (
        f"These pages have no link to it, or not where it would be followed by {places}: "
        + filled(f"{_TRY_IT} lists the links of one.", known)
    )


def _asked(follow: Follow, url: str, pages: Sequence[Body]) -> tuple[list[str], list[Body]]:
    """Return why a link to the URL is refused, and the pages from which it is followed."""
    allowed = _search(follow.allow) if follow.allow else None
    denied = _search(follow.deny) if follow.deny else None
    reasons: Counter[str] = Counter()
    found = []
    for page in pages:
        why = links.ended(follow, page.depth, page.meta)
        if why is None:
            known = links.LinkFilter(follow, links.host_of(page.url), allowed, denied)
            why = known.refusal(url, links.host_of(url))
        if why is None:
            found.append(page)
        else:
            reasons[why] += 1
    said = [_reason(why, follow, url, pages, count) for why, count in reasons.most_common()]
    return said, found


def _reason(why: str, follow: Follow, url: str, pages: Sequence[Body], count: int) -> str:
    """Name the setting that refuses a link, with its value."""
    match why:
        case links.OTHER_DOMAIN:
            of = follow.domains
            named = of.value if isinstance(of, Reach) else ", ".join(of[:_HOSTS])
            hosts = list(dict.fromkeys(links.host_of(page.url) for page in pages))
            more = "" if len(hosts) <= _HOSTS else " and others"
            read = f"; read was {', '.join(hosts[:_HOSTS])}{more}"
            return f"{links.host_of(url)} is outside of its domains ({named}{read})"
        case links.DENIED:
            found = next((one for one in follow.deny if _search((one,))(url)), "")
            return f"its deny has {found!r}"
        case links.NOT_ALLOWED:
            return (
                f"none of its allow is found in it ({', '.join(map(repr, follow.allow[:_HOSTS]))})"
            )
        case links.TOO_DEEP:
            return f"{count:,} pages are {follow.max_depth:,} links deep, its max_depth"
        case links.LAST_PAGE:
            return f"{count:,} pages are the last of its max_pages, {follow.max_pages:,}"
    return why


def _search(patterns: Sequence[str]) -> links.Search:
    compiled = [RegexQuery(pattern) for pattern in patterns]

    def search(url: str) -> bool:
        try:
            return any(one.found_in(url) for one in compiled)
        except UnreadableError:
            return False

    return search
