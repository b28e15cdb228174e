"""What a request's timeline says of a page that was read."""

from crawlfleet.model.outcome import Done


def done_with(done: Done) -> str:
    """The line: the site's status, how many records there are, what was not stored and why.

    >>> done_with(Done((), 200, stored=5, rejected=("record 2, sku: is missing",)))
    'HTTP 200, records: 5, rejected: 1 (record 2, sku: is missing)'
    """
    line = f"HTTP {done.status}, records: {done.stored + len(done.records)}"
    count = max(done.rejected_count, len(done.rejected))
    if not count:
        return line
    line += f", rejected: {count}"
    return f"{line} ({done.rejected[0]})" if done.rejected else line
