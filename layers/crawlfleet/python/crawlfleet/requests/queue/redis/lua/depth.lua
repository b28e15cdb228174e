-- depth: how much a queue holds, at one moment.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] delayed     ZSET  entry -> epoch ms at which it is due
-- KEYS[3] parked      HASH  host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[4] parked_low  ZSET  host -> least ts of its list
-- KEYS[5..15]         LIST  entries of priority 0 to 10, served from the tail
-- reply   {leased, delayed, deferred as text, the least ts of all that is deferred or nil,
--          priority, how many are queued of it, the one of them to be served next, priority...}
return add_heads({
  redis.call('ZCARD', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('HGET', KEYS[3], '*') or '0',
  redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2] or false,
}, 5)
