-- budget: enters what a tenant has put under a key of its own choice; names what has to go for it.
-- KEYS[1] entered  ZSET  entry by when it was put last, epoch us
-- KEYS[2] sizes    HASH  entry -> its bytes; '' -> all bytes
-- ARGV[1] entry    not empty
-- ARGV[2] bytes    that it takes
-- ARGV[3] most     bytes of all entries
-- ARGV[4] seconds  after which an entry is gone by itself
-- reply   {entry...} that have to go, the oldest first; the new one alone if it is too large
local now, longest = server_us(), ARGV[4] * 1000000
local total = tonumber(redis.call('HGET', KEYS[2], '')) or 0
local function forget(entry)
  total = total - (tonumber(redis.call('HGET', KEYS[2], entry)) or 0)
  redis.call('HDEL', KEYS[2], entry)
  redis.call('ZREM', KEYS[1], entry)
end
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - longest))) do
  forget(entry)
end
forget(ARGV[1])
if tonumber(ARGV[2]) > tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[2], '', string.format('%.0f', total))
  redis.call('EXPIRE', KEYS[2], ARGV[4])
  return {ARGV[1]}
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
total = total + ARGV[2]
local gone = {}
while total > tonumber(ARGV[3]) do
  local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  -- Of those of one moment the new one goes last; it fits alone.
  if first == ARGV[1] then first = redis.call('ZRANGE', KEYS[1], 1, 1)[1] end
  if not first then break end
  forget(first)
  gone[#gone + 1] = first
end
redis.call('HSET', KEYS[2], '', string.format('%.0f', total))
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return gone
