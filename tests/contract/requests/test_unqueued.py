"""Notes of bizs of which requests could not be queued, over memory and a real MongoDB."""

from datetime import timedelta

import pytest

from tests.contract.store_cases import NOW
from tests.kit.broken_servers import closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo import MongoRequestStore, Waits
from tests.kit.mongo_nodes import NodesOnOneServer

store = fixture_over(MongoRequestStore)


def test_a_biz_is_noted_until_its_latest_note_is_forgotten(store: MongoRequestStore, tenant: str):
    queue_key, whose = QueueKey(tenant, "shop", "main"), (tenant, "shop")
    later = NOW + timedelta(milliseconds=1)
    assert whose not in store.noted_unqueued()

    store.note_unqueued(queue_key, NOW)
    store.note_unqueued(queue_key, later)
    store.forget_unqueued(queue_key, NOW)
    assert store.noted_unqueued()[whose] == later

    store.forget_unqueued(queue_key, later)
    assert whose not in store.noted_unqueued()


def test_whoever_cannot_note_a_biz_goes_on(tenant: str, caplog: pytest.LogCaptureFixture):
    with closed_port() as address:
        nodes = NodesOnOneServer(f"mongodb://{address}/", waits=Waits(selection=0.3))
        store = MongoRequestStore(nodes)
        try:
            store.note_unqueued(QueueKey(tenant, "shop", "main"), NOW)
            with pytest.raises(StoreUnavailableError):
                store.noted_unqueued()
        finally:
            nodes.close()

    assert f"requests of {tenant}/shop are found by recovery's turns alone" in caplog.text
