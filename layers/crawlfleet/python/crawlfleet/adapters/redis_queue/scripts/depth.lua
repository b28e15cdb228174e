-- depth: how much there is of a lane, seen in one moment.
-- KEYS[1] queue       LIST  entries as JSON, served from the tail
-- KEYS[2] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[3] delayed     ZSET  entry -> epoch ms at which it is due
-- KEYS[4] parked      HASH  host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[5] parked_low  ZSET  host -> least ts of its list
-- reply   {queued, leased, delayed, the entry to be served next or nil, parked as text,
--          the least ts of all that is parked or nil}
return {
  redis.call('LLEN', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]),
  redis.call('LINDEX', KEYS[1], -1),
  redis.call('HGET', KEYS[4], '*') or '0',
  redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2] or false,
}
