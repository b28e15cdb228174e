"""Find the links that a rule's ``follow`` names on a page, and judge them by extract.links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from crawlfleet.config.documents.rule import Follow
from crawlfleet.crawling.extract import links
from crawlfleet.crawling.extract.casts import to_string
from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.engines import EngineName
from crawlfleet.crawling.extract.limits import MATCH_UNITS, UnreadableError
from crawlfleet.crawling.extract.plan import Group, Query
from crawlfleet.crawling.extract.regex import RegexQuery
from crawlfleet.crawling.extract.transforms import Chain
from crawlfleet.requests.models import Link

#: Gives the texts in which links are, and of each whether it asks not to be followed.
Found = Callable[[Document], Iterable[tuple[object, bool]]]
Links = dict[tuple[str, str], Link]  #: By URL and rule.
Refusals = dict[str, int]  #: How many links are not followed, by reason.

CANDIDATES_MAX: Final = 10_000  #: Candidates of one page that are judged.
#: Bytes of JSON that a link takes along of its page; each request carries them.
META_BYTES_MAX: Final = 2_000
_LINK_UNITS: Final = 500  #: Units of judging one link.


@dataclass(slots=True)
class Follower:
    """A compiled entry of a rule's ``follow``."""

    follow: Follow
    find: Found
    regex: RegexQuery | None
    chain: Chain | None
    meta: Group | None
    allow: RegexQuery | None
    deny: RegexQuery | None

    def collect(
        self,
        document: Document,
        depth: int,
        meta: Mapping[str, Any],
        found: Links,
        refused: Refusals,
    ) -> None:
        """Add this one's links to ``found``, by URL and rule; count the others in ``refused``."""
        follow, rule = self.follow, self.follow.rule or ""
        candidates = self._candidates(document, refused)
        document.meter.spend(len(candidates) * _LINK_UNITS)
        if (why := links.ended(follow, depth, meta)) is not None:
            _count(refused, why, len(candidates))
            return
        deeper = depth if follow.pagination else depth + 1
        taken = self._taken(document, meta) if candidates else {}
        patterns = (
            None if one is None else partial(one.found_in, meter=document.meter)
            for one in (self.allow, self.deny)
        )
        link_filter = links.LinkFilter(follow, links.host_of(document.page.url), *patterns)
        own = document.page.url.partition("#")[0] if not rule else ""
        addresses = document.addresses
        kept = 0
        for text in candidates:
            address = addresses.find(text)
            if address is None:
                _count(refused, links.UNUSABLE)
                continue
            url = address.url
            if (url, rule) in found or url == own:
                _count(refused, links.REPEATED)
            elif (why := link_filter.refusal(url, address.host)) is not None:
                _count(refused, why)
            elif kept >= follow.limit or len(found) >= links.LINKS_MAX:
                _count(refused, links.TOO_MANY)
            else:
                kept += 1
                found[url, rule] = Link(url=url, rule=rule, depth=deeper, meta=taken)

    def _candidates(self, document: Document, refused: Refusals) -> list[str]:
        obeys = self.follow.obey_nofollow
        closed = obeys and document.nofollow
        texts: list[str] = []
        for raw, nofollow in self.find(document):
            if raw is None:
                continue
            if closed or (nofollow and obeys):
                _count(refused, links.NOFOLLOW)
                continue
            text = raw if isinstance(raw, str) else to_string(raw)
            if self.regex is not None:
                texts += self.regex.values(text, document.meter)
            elif not links.is_nowhere(text):
                texts.append(text)
        if self.chain is not None:
            texts = [new for text in texts for new in self.chain.run(document, [text.strip()])]
        if len(texts) > CANDIDATES_MAX:
            _count(refused, links.TOO_MANY, len(texts) - CANDIDATES_MAX)
        return texts[:CANDIDATES_MAX]

    def _taken(self, document: Document, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the meta of links: of a further page of the list all that its first page had."""
        taken: dict[str, Any] = {}
        if self.follow.pagination:
            taken = {**meta, links.PAGE_META: links.page_number(meta) + 1}
        if self.meta is None:
            return taken
        try:
            taken = {**taken, **self.meta.read(document, None)}
        except UnreadableError as error:
            raise error.within("meta") from error.__cause__
        if len(msgspec.json.encode(taken)) > META_BYTES_MAX:
            raise UnreadableError(f"links would take along more than {META_BYTES_MAX:,} bytes")
        return taken


def anchors(engine: EngineName | None, query: Query, attribute: str) -> Found:
    """Return what reads links of a query's matches: an attribute of elements, or the values."""

    def found(document: Document) -> Iterable[tuple[object, bool]]:
        matches = query.some(document, None, CANDIDATES_MAX + 1)
        document.meter.spend(len(matches) * MATCH_UNITS)
        for match in matches:
            if engine == "json" or isinstance(match, str):
                yield match, False
            else:
                attributes = match.attributes if engine == "css" else match
                closed = "nofollow" in (attributes.get("rel") or "").lower().split()
                yield attributes.get(attribute), closed

    return found


def _count(refused: Refusals, why: str, number: int = 1) -> None:
    if number:
        refused[why] = refused.get(why, 0) + number
