-- crawl_absorb: start URLs that somebody has pushed become entries of the queue.
-- KEYS[1] source    LIST  or SET, or ZSET of which the highest is first
-- KEYS[2] queue     ZSET  id -> minus its priority
-- KEYS[3] requests  HASH  id -> score and request
-- KEYS[4] serial    STRING  ids given so far
-- ARGV[1] order     as of crawl_push
-- ARGV[2] number    of start URLs at most
-- reply   how many there were
local kind, taken = redis.call('TYPE', KEYS[1]).ok, {}
if kind == 'list' then
  taken = redis.call('LPOP', KEYS[1], ARGV[2]) or {}
elseif kind == 'set' then
  taken = redis.call('SPOP', KEYS[1], ARGV[2])
elseif kind == 'zset' then
  local found = redis.call('ZPOPMAX', KEYS[1], ARGV[2])
  for i = 1, #found, 2 do taken[#taken + 1] = found[i] end
elseif kind ~= 'none' then
  return redis.error_reply('WRONGTYPE start URLs are a list, a set or a sorted set')
end
for _, given in ipairs(taken) do
  local id = next_id(KEYS[4], ARGV[1])
  redis.call('HSET', KEYS[3], id, '0 s' .. given)
  redis.call('ZADD', KEYS[2], 0, id)
end
return #taken
