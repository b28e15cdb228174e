-- crawl_load: count what is left of a crawl.
-- KEYS[1] queue      ZSET  id -> minus its priority
-- KEYS[2] leases     ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[3] processes  ZSET  process -> epoch ms at which it is taken to be gone
-- ARGV[1] process    the caller
-- reply   queued, leased, other processes
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', server_ms())
local others = redis.call('ZCARD', KEYS[3])
if redis.call('ZSCORE', KEYS[3], ARGV[1]) then others = others - 1 end
return { redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]), others }
