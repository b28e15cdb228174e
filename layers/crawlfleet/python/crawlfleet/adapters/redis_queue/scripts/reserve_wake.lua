-- reserve_wake: how many workers are missing, each of them reserved for the caller to start.
-- KEYS[1] workers       ZSET  worker id -> epoch ms of its last beat
-- KEYS[2] wakes         ZSET  wake-up not yet a worker -> epoch ms of its reservation
-- ARGV[1] now           epoch ms
-- ARGV[2] live after    epoch ms: a worker whose last beat is not later is taken to be dead
-- ARGV[3] wakes after   epoch ms: a reservation that is not later has come to nothing
-- ARGV[4] forget        epoch ms: a worker whose last beat is not later is removed
-- ARGV[5] wanted        how many shall live
-- ARGV[6] name          of this call's reservations, which append a number
-- reply   how many the caller shall start
even_when_full(KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[3])
local live = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[2], '+inf') + redis.call('ZCARD', KEYS[2])
local missing = math.max(0, tonumber(ARGV[5]) - live)
for i = 1, missing do redis.call('ZADD', KEYS[2], ARGV[1], ARGV[6] .. ':' .. i) end
return missing
