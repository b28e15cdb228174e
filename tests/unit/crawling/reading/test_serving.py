"""Questions that a reader of pages answers, each within the CPU seconds of one."""

from tests.kit.config import Spider
from tests.kit.reading import Answering, PageReaders, messages
from tests.kit.requests import Body, Page

PAGE = Page(url="https://example.org/", status=200, headers={}, body=b"")
BODY = Body(url=PAGE.url, rule="page", rule_version="1")
SPIDER = messages.written(Spider(executor="counting", parameters={}))


class Counting:
    """Gives a record for each number, and tells which were read."""

    def __init__(self):
        self.read_so_far = []

    def read(self, *_, **__):
        for number in range(5):
            self.read_so_far.append(number)
            yield {"number": number}


def asked(answering, question):
    header = messages.ANSWER.size
    return messages.answers.decode(answering.answer(question, b"")[header:])


def test_a_page_that_is_begun_again_is_come_to_where_it_was_in_slices():
    counting = Counting()
    readers = PageReaders(extractor=None, executors=counting, try_page=None, check=None)
    answering = Answering(readers)
    facts = messages.PageFacts.of(PAGE, BODY)

    asked(answering, messages.Open(1, 7, SPIDER, facts, ("acme", "shop"), 3))
    at_first = list(counting.read_so_far)
    slices = [asked(answering, messages.Next(number, 7, 0.0)) for number in range(2, 8)]

    assert at_first == [], "to open a page takes nothing yet"
    assert [one.records for one in slices] == [(), (), (), ({"number": 3},), ({"number": 4},), ()]
    assert [one.more for one in slices] == [True] * 5 + [False]
