-- load: how much work a queue has for a lease now.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] delayed     ZSET  entry -> epoch ms at which it is due
-- KEYS[3] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[4] parked_due  ZSET  place -> epoch ms at which it is looked at
-- KEYS[5..15]         LIST  entries of priority 0 to 10
-- ARGV[1] now         epoch ms
-- ARGV[2] looked at   how many of the places whose time has come
-- reply   {what a lease would find in the queue, what is leased and not ended,
--          epoch ms at which the next retry is due or a host is looked at, or nil,
--          how many hosts are due or lost from their set, what waits for the first of them...}
local ended = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1])
local due = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[1])
local function following(key)
  local found = redis.call(
    'ZRANGEBYSCORE', key, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 1
  )
  return found[2]
end
local next_due, next_host = following(KEYS[2]), following(KEYS[4])
if not next_due or next_host and tonumber(next_host) < tonumber(next_due) then
  next_due = next_host
end
local reply = {
  queued(5) + due + ended,
  redis.call('ZCARD', KEYS[1]) - ended,
  next_due or false,
  redis.call('ZCOUNT', KEYS[4], '-inf', ARGV[1]),
}
local places = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #places > 0 then
  -- A host has a place for each priority that waits for it, and counts once.
  local at = {}
  for i, figures in ipairs(redis.call('HMGET', KEYS[3], unpack(places))) do
    local host = string.match(places[i], '^[^ ]*')
    if at[host] then
      reply[4] = reply[4] - 1
    else
      reply[#reply + 1], at[host] = 0, #reply + 1
    end
    reply[at[host]] = reply[at[host]] + tonumber(string.match(figures or '', '^%d+') or 1)
  end
end
-- The next look finds those again.
local counts = 1 + 2 * redis.call('HEXISTS', KEYS[3], '*accounts')
local lost = redis.call('HLEN', KEYS[3]) - counts - redis.call('ZCARD', KEYS[4])
for _ = 1, math.min(lost, ARGV[2] - #places) do
  reply[4], reply[#reply + 1] = reply[4] + 1, 1
end
return reply
