"""Records that are stored before their request is settled, or without one (SPEC.md B9)."""

from collections.abc import Sequence
from datetime import datetime

from pymongo.client_session import ClientSession

from crawlfleet.adapters.mongo.claims import claim_key, owned
from crawlfleet.adapters.mongo.connection import border
from crawlfleet.adapters.mongo.keyed_records import KeyedRecords
from crawlfleet.adapters.mongo.record_documents import record_document
from crawlfleet.adapters.mongo.shards import BY_ID, Shards
from crawlfleet.adapters.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.record import Record
from crawlfleet.model.request import Claim
from crawlfleet.policy.routing import route


class MongoStreaming:
    """The part of ports.RequestStore that stores records by themselves."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def store_part(
        self, lane: Lane, biz: Biz, claim: Claim, records: Sequence[Record], now: datetime
    ) -> bool:
        """See ports.RequestStore.store_part.

        One transaction that counts the part in the request, so that it meets whoever takes the
        request away at the same moment. Keyed records are a part of it where they live on the same
        node, and are written before it where not.
        """
        shard = route(biz, *claim_key(claim))
        unkeyed = [record for record in records if record.key is None]
        keyed = [record for record in records if record.key is not None]
        keeping = KeyedRecords(self._shards, lane, biz)
        with border(TRANSACTION_SECONDS):
            requests = self._shards.requests(lane, biz, shard)
            mine = owned([claim])
            stored = self._shards.records(lane, biz, shard, made_sure=bool(unkeyed))
            home = keeping.home(now) if keyed else None
            if home is not None and home.node != shard.node:
                if requests.find_one(mine, projection=["_id"], hint=BY_ID) is None:
                    return False
                keeping.write(home, keyed)
                home = None

            def write(session: ClientSession) -> bool:
                counted = {"$inc": {"parts": 1}}
                if not requests.update_one(
                    mine, counted, hint=BY_ID, session=session
                ).matched_count:
                    return False
                if unkeyed:
                    documents = [record_document(lane.tenant, record) for record in unkeyed]
                    ids = [document["_id"] for document in documents]
                    stored.delete_many({"_id": {"$in": ids}}, hint=BY_ID, session=session)
                    stored.insert_many(documents, session=session)
                if home is not None:
                    keeping.write(home, keyed, session)
                return True

            return in_transaction(self._shards.client(shard), write)

    def store_keyed(self, lane: Lane, biz: Biz, records: Sequence[Record], now: datetime) -> None:
        """See ports.RequestStore.store_keyed: one upsert a record, in one statement."""
        keeping = KeyedRecords(self._shards, lane, biz)
        with border():
            keeping.write(keeping.home(now), records)
