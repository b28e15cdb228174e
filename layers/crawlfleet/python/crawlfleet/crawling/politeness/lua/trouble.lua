-- trouble: hosts where a tenant met overload or failures; the latest are kept.
-- KEYS[1] troubled  ZSET  host -> epoch ms of the latest trouble
-- ARGV[1] now       epoch us, or empty for the server's clock
-- ARGV[2] kept      how many hosts
-- ARGV[3] seconds   how long all of it is kept
-- ARGV[4]...        the hosts
-- reply   how many are kept
local now = math.floor((tonumber(ARGV[1]) or server_us()) / 1000)
for i = 4, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('ZCARD', KEYS[1])
