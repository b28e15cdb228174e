-- tick: notes that a tick of the scheduler has ended, or reads the latest one.
-- KEYS[1] tick   STRING  'at took part count part count ...' of the latest tick, at in server's ms;
--                        'at' alone where none is known: since then one is asked for
-- KEYS[2] between_ticks  ZSET  'part what' that failed between ticks, by the server's ms
-- ARGV[1] ended  'took part count part count ...' of the tick that ends now; '' to read only
-- ARGV[2] life   ms for which what faults between ticks are read
-- reply   {server's epoch ms, what stands, what failed between ticks}
local now = server_ms()
local standing = redis.call('GET', KEYS[1])
if ARGV[1] ~= '' then
  standing = string.format('%.0f %s', now, ARGV[1])
elseif not standing then
  standing = string.format('%.0f', now)
else
  local since = string.format('(%.0f', now - tonumber(ARGV[2]))
  return { now, standing, redis.call('ZRANGEBYSCORE', KEYS[2], since, '+inf') }
end
even_when_full(KEYS[1])
redis.call('SET', KEYS[1], standing)
return { now, standing, {} }
