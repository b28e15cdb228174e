-- announce_cancelled: announce to workers that jobs are being cancelled.
-- KEYS[1] cancelled  ZSET  tenant/biz/job -> server's epoch ms of its latest announcement
-- ARGV[1] kept       ms for which an announcement stands
-- ARGV[2] most       announcements that are kept, the latest
-- ARGV[3..]          tenant/biz/job of each
-- reply   announcements that stand
even_when_full(KEYS[1])
local now = server_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
-- Of a time that has not come: the clock was set back since.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -(ARGV[2] + 1))
return redis.call('ZCARD', KEYS[1])
