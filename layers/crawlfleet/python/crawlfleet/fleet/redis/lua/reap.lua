-- reap: forget a worker, dead or leaving.
-- KEYS[1] workers    ZSET  worker id -> epoch ms of its last beat, by the callers' clocks
-- KEYS[2] pulses     ZSET  worker id -> epoch ms of its last beat, by the server's clock
-- KEYS[3] intervals  HASH  worker id -> its latest intervals
-- KEYS[4] cards      HASH  worker id -> its status as JSON
-- KEYS[5] leaving    ZSET  worker that is told to leave -> server's epoch ms
-- ARGV[1] worker     its id
-- reply   1, or 0 if it was not known any more
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
return redis.call('ZREM', KEYS[2], ARGV[1])
