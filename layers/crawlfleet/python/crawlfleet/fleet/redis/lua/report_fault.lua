-- report_fault: note a fault between two ticks of the scheduler; noted again it is the same.
-- KEYS[1] between_ticks  ZSET  'part what' by the server's ms of its last failure
-- ARGV[1] fault          'part what'
-- ARGV[2] life           ms after which one is forgotten
-- ARGV[3] most           how many are kept, the latest
-- reply   how many there are
local now = server_ms()
even_when_full(KEYS[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[3]) - 1)
return redis.call('ZCARD', KEYS[1])
