-- load: how much work a lane has for whoever asks now.
-- KEYS[1] queue    LIST  entries as JSON, served from the tail
-- KEYS[2] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[3] delayed  ZSET  entry -> epoch ms at which it is due
-- ARGV[1] now      epoch ms
-- reply   {what a lease would find, what is leased and not ended,
--          epoch ms at which the next retry is due or nil}
local ended = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[1])
local due = redis.call('ZCOUNT', KEYS[3], '-inf', ARGV[1])
local following = redis.call(
  'ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 1
)
return {
  redis.call('LLEN', KEYS[1]) + due + ended,
  redis.call('ZCARD', KEYS[2]) - ended,
  following[2] or false,
}
