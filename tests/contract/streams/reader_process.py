"""A process that reads streams, to be killed at any moment.

``python reader_process.py REDIS MONGO CONTROL CHANNEL WORKER URL``: reads the channel at that
address, and ends with its standard input.
"""

import asyncio
import sys
import threading
from datetime import timedelta

from tests.contract.streams.streaming import runner_of
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.redis import RedisConnection
from tests.kit.streams import RedisHolds

#: As in production: who is killed is followed after these, which the test waits for.
LIVENESS = timedelta(seconds=3)


async def read(redis: str, mongo: str, control: str, channel: str, worker: str, url: str) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    nodes = NodesOnOneServer(mongo, control)
    with RedisConnection(redis) as connection:
        terms = {"holds": RedisHolds(connection), "liveness": LIVENESS}
        async with runner_of(
            connection, nodes, worker, {channel: url}, fleet=channel, **terms
        ) as runner:
            print("reads", flush=True)  # noqa: T201  whoever started it waits for this
            await runner.run(ended.is_set)
    nodes.close()


if __name__ == "__main__":
    asyncio.run(read(*sys.argv[1:]))
