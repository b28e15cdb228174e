import pytest

from tests.contract.scrapy_cases import ShopSpider, Station


@pytest.fixture
def redis(redis_connection):
    return redis_connection.client


@pytest.fixture
def station(redis_url, tenant):
    made = []

    def make(kind=ShopSpider, url=redis_url, **options):
        made.append(Station(url, tenant, kind, **options))
        return made[-1]

    yield make
    for each in made:
        each.session.connection.close()
        each.session.journal.close()
