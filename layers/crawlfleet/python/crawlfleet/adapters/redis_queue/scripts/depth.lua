-- depth: how much there is of a lane, seen in one moment.
-- KEYS[1] queue    LIST  entries as JSON, served from the tail
-- KEYS[2] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[3] delayed  ZSET  entry -> epoch ms at which it is due
-- reply   {queued, leased, delayed, the entry to be served next or nil}
return {
  redis.call('LLEN', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]),
  redis.call('LINDEX', KEYS[1], -1),
}
