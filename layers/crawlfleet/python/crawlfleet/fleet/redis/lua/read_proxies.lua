-- read_proxies: the pools of proxies and the latest reported of their proxies, for people.
-- KEYS[1] proxies     HASH  'pool key' -> the state of a proxy (proxies_prelude.lua)
-- KEYS[2] seen        ZSET  'pool key' -> when it was reported last, or when its cool-down ends
-- KEYS[3] pools       HASH  pool -> its size, how many are away, and when that was reported, ms
-- ARGV[1] most        how many proxies
-- reply   {epoch ms, {'pool size away ms'...}, {'pool key state'...}}
local pools, proxies = {}, {}
local found = redis.call('HGETALL', KEYS[3])
for i = 1, #found, 2 do pools[#pools + 1] = found[i] .. ' ' .. found[i + 1] end
for _, field in ipairs(redis.call('ZREVRANGE', KEYS[2], 0, ARGV[1] - 1)) do
  local state = redis.call('HGET', KEYS[1], field)
  if state then proxies[#proxies + 1] = field .. ' ' .. state end
end
return {server_ms(), pools, proxies}
