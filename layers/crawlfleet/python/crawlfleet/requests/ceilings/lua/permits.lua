-- permits: what a worker may have in flight of a tenant with ceilings.
-- KEYS[1] permits  HASH    worker -> its permits, * -> those of all
-- KEYS[2] ends     ZSET    worker -> epoch ms at which its permits end
-- KEYS[3] begun    STRING  epoch us at which the rate's bucket is full again
-- ARGV[1] worker
-- ARGV[2] held     requests that it has in flight
-- ARGV[3] wanted   how many more it wants
-- ARGV[4] unused   what it was given last time and has not leased: the rate takes that back
-- ARGV[5] most     of all workers together, or empty for no bound
-- ARGV[6] rate     leases a second, or empty for none
-- ARGV[7] term     ms after which the permits of who is not heard of end
-- ARGV[8] now      epoch us, or empty for the server's clock
-- reply   {how many more, permits of all workers, us until the rate has room as text}
--
-- What a worker has in flight it keeps, also where the ceiling was lowered. Of a rate a second's
-- leases may come at once, one at least.
local now, held, wanted = tonumber(ARGV[8]) or server_us(), tonumber(ARGV[2]), tonumber(ARGV[3])
local ms = math.floor(now / 1000)
local total = tonumber(redis.call('HGET', KEYS[1], '*') or 0)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms)) do
  total = total - (redis.call('HGET', KEYS[1], gone) or 0)
  redis.call('HDEL', KEYS[1], gone)
  redis.call('ZREM', KEYS[2], gone)
end
local others = total - (redis.call('HGET', KEYS[1], ARGV[1]) or 0)
local count, wait = wanted, 0
if ARGV[5] ~= '' then count = math.max(0, math.min(count, ARGV[5] - others - held)) end
if ARGV[6] ~= '' then
  local interval = 1000000 / ARGV[6]
  local burst = math.max(interval, 1000000)
  local full_at = tonumber(redis.call('GET', KEYS[3]) or 0) - ARGV[4] * interval
  full_at = math.max(now, full_at)
  local room = math.floor((now + burst - full_at) / interval)
  if room < count then
    count = math.max(0, room)
    wait = math.max(0, full_at + (count + 1) * interval - now - burst)
  end
  full_at = full_at + count * interval
  if count > 0 or tonumber(ARGV[4]) > 0 then
    local life = (full_at - now) / 1000 + 60000
    redis.call('SET', KEYS[3], string.format('%.0f', full_at), 'PX', string.format('%.0f', life))
  end
end
total = others + held + count
if held + count > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], held + count, '*', total)
  redis.call('ZADD', KEYS[2], string.format('%.0f', ms + ARGV[7]), ARGV[1])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
  if total > 0 then redis.call('HSET', KEYS[1], '*', total) else redis.call('DEL', KEYS[1]) end
end
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[7])
redis.call('PEXPIRE', KEYS[2], 2 * ARGV[7])
return {count, total, string.format('%.0f', math.ceil(wait))}
