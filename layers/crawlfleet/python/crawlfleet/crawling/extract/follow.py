"""Find the links that a rule's ``follow`` names on a page, and judge them by extract.links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from crawlfleet.config.documents.rule import Follow
from crawlfleet.crawling.extract.casts import to_string
from crawlfleet.crawling.extract.limits import MATCH_UNITS, UnreadableError
from crawlfleet.crawling.extract.links import (
    LINKS_MAX,
    NOFOLLOW,
    PAGE_META,
    REPEATED,
    TOO_MANY,
    UNUSABLE,
    LinkFilter,
    Search,
    ended,
    host_of,
    is_nowhere,
    page_number,
)
from crawlfleet.requests.models import Link

if TYPE_CHECKING:
    from crawlfleet.crawling.extract.document import Document
    from crawlfleet.crawling.extract.engines import EngineName
    from crawlfleet.crawling.extract.limits import Meter
    from crawlfleet.crawling.extract.plan import Group, Query
    from crawlfleet.crawling.extract.regex import RegexQuery
    from crawlfleet.crawling.extract.transforms import Chain


#: Gives the texts in which links are, and of each whether it asks not to be followed.
Found = Callable[["Document"], Iterable[tuple[object, bool]]]
#: How many links are not followed, by reason.
Refusals = dict[str, int]

#: Candidates of one page that are judged.
CANDIDATES_MAX: Final = 10_000
#: Bytes of JSON that a link takes along of its page; each request carries them.
META_BYTES_MAX: Final = 2_000
#: Units of judging one link.
_LINK_UNITS: Final = 500


class Follower:
    """A compiled entry of a rule's ``follow``."""

    __slots__ = ("_allow", "_chain", "_deny", "_find", "_follow", "_meta", "_regex", "_rule")

    def __init__(
        self,
        follow: Follow,
        find: Found,
        regex: RegexQuery | None,
        chain: Chain | None,
        meta: Group | None,
        *,
        allow: RegexQuery | None,
        deny: RegexQuery | None,
    ) -> None:
        self._follow, self._find, self._regex, self._chain = follow, find, regex, chain
        self._meta, self._allow, self._deny = meta, allow, deny
        self._rule = follow.rule or ""

    def collect(
        self,
        document: Document,
        depth: int,
        meta: Mapping[str, Any],
        found: dict[tuple[str, str], Link],
        refused: Refusals,
    ) -> None:
        """Add this one's links to ``found``, by URL and rule; count the others in ``refused``."""
        follow, rule = self._follow, self._rule
        candidates = self._candidates(document, refused)
        document.meter.spend(len(candidates) * _LINK_UNITS)
        if (why := ended(follow, depth, meta)) is not None:
            _count(refused, why, len(candidates))
            return
        deeper = depth if follow.pagination else depth + 1
        taken = self._taken(document, meta) if candidates else {}
        patterns = (_search(one, document.meter) for one in (self._allow, self._deny))
        link_filter = LinkFilter(follow, host_of(document.page.url), *patterns)
        own = document.page.url.partition("#")[0] if not rule else ""
        addresses = document.addresses
        kept = 0
        for text in candidates:
            address = addresses.find(text)
            if address is None:
                _count(refused, UNUSABLE)
                continue
            url = address.url
            if (url, rule) in found or url == own:
                _count(refused, REPEATED)
            elif (why := link_filter.refusal(url, address.host)) is not None:
                _count(refused, why)
            elif kept >= follow.limit or len(found) >= LINKS_MAX:
                _count(refused, TOO_MANY)
            else:
                kept += 1
                found[url, rule] = Link(url=url, rule=rule, depth=deeper, meta=taken)

    def _candidates(self, document: Document, refused: Refusals) -> list[str]:
        obeys = self._follow.obey_nofollow
        closed = obeys and document.nofollow
        texts: list[str] = []
        for raw, nofollow in self._find(document):
            if raw is None:
                continue
            if closed or (nofollow and obeys):
                _count(refused, NOFOLLOW)
                continue
            text = raw if isinstance(raw, str) else to_string(raw)
            if self._regex is not None:
                texts += self._regex.values(text, document.meter)
            elif not is_nowhere(text):
                texts.append(text)
        if self._chain is not None:
            texts = [new for text in texts for new in self._chain.run(document, [text.strip()])]
        if len(texts) > CANDIDATES_MAX:
            _count(refused, TOO_MANY, len(texts) - CANDIDATES_MAX)
        return texts[:CANDIDATES_MAX]

    def _taken(self, document: Document, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the meta of links: of a further page of the list all that its first page had."""
        taken: dict[str, Any] = {}
        if self._follow.pagination:
            taken = {**meta, PAGE_META: page_number(meta) + 1}
        if self._meta is None:
            return taken
        try:
            taken = {**taken, **self._meta.read(document, None)}
        except UnreadableError as error:
            raise error.within("meta") from error.__cause__
        if len(msgspec.json.encode(taken)) > META_BYTES_MAX:
            raise UnreadableError(f"links would take along more than {META_BYTES_MAX:,} bytes")
        return taken


def _search(pattern: RegexQuery | None, meter: Meter) -> Search | None:
    return None if pattern is None else partial(pattern.found_in, meter=meter)


def anchors(engine: EngineName | None, query: Query, attribute: str) -> Found:
    """Return what reads links of a query's matches: an attribute of elements, or the values."""
    if engine == "css":

        def of_nodes(document: Document) -> Iterable[tuple[object, bool]]:
            found = _some(query, document)
            for node in found:
                attributes = node.attributes
                yield attributes.get(attribute), _refuses(attributes.get("rel"))

        return of_nodes
    if engine == "xpath":

        def of_elements(document: Document) -> Iterable[tuple[object, bool]]:
            for match in _some(query, document):
                if isinstance(match, str):
                    yield match, False
                else:
                    yield match.get(attribute), _refuses(match.get("rel"))

        return of_elements
    return lambda document: ((value, False) for value in _some(query, document))


def _some(query: Query, document: Document) -> list[Any]:
    found = query.some(document, None, CANDIDATES_MAX + 1)
    document.meter.spend(len(found) * MATCH_UNITS)
    return found


def _refuses(rel: str | None) -> bool:
    return rel is not None and "nofollow" in rel.lower().split()


def _count(refused: Refusals, why: str, number: int = 1) -> None:
    if number:
        refused[why] = refused.get(why, 0) + number
