-- troubled: hosts where a tenant met overload or failures lately, the latest first.
-- KEYS[1] troubled  ZSET  host -> epoch ms of the latest trouble
-- ARGV[1] now       epoch us, or empty for the server's clock
-- ARGV[2] lately    ms
-- ARGV[3] count     of hosts at most
-- reply   {how many hosts, host...}
local now = math.floor((tonumber(ARGV[1]) or server_us()) / 1000)
local found = redis.call(
  'ZREVRANGEBYSCORE', KEYS[1], '+inf', now - ARGV[2], 'LIMIT', 0, ARGV[3]
)
return {#found, unpack(found)}
