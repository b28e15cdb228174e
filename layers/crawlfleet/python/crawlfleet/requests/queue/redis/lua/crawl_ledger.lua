-- crawl_ledger: count the requests of a crawl by state, at one moment.
-- KEYS[1] counts  HASH  submitted, done, dead, cancelled
-- KEYS[2] queue   ZSET  id -> minus its priority
-- KEYS[3] leases  ZSET  process:id -> epoch ms at which the lease ends
-- reply   submitted, queued, leased, done, dead, cancelled
local counts = redis.call('HMGET', KEYS[1], 'submitted', 'done', 'dead', 'cancelled')
for i = 1, 4 do counts[i] = tonumber(counts[i] or 0) or 0 end
return { counts[1], redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]), counts[2], counts[3], counts[4] }
