-- list_deferred: places of hosts whose time has come and that have entries, the longest due first.
-- KEYS[1] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[2] parked_due  ZSET  place -> epoch ms at which it is looked at
-- KEYS[3] parked_low  ZSET  place -> least ts of its list
-- ARGV[1] now         epoch ms
-- ARGV[2] count       of places at most
-- reply   {how many places, place, count, epoch ms as text, place...}
--
-- Hosts that the sets have lost are due, and what waits is counted anew. Of one that the HASH has
-- lost at least one entry waits: a lease finds out.
local every = redis.call('HLEN', KEYS[1])
local counted = redis.call('HEXISTS', KEYS[1], '*')
local hosts = every - counts_in(KEYS[1])
if hosts > redis.call('ZCARD', KEYS[2]) or hosts > redis.call('ZCARD', KEYS[3])
  or every > 0 and counted == 0 then
  even_when_full(KEYS[1])
  redis.call('HDEL', KEYS[1], '*parked', '*accounts')
  local found, all = redis.call('HGETALL', KEYS[1]), 0
  for i = 1, #found, 2 do
    if string.sub(found[i], 1, 1) ~= '*' then
      local waiting = waiting_for(KEYS[1], KEYS[3], found[i], 0)
      local least = math.min(waiting.least_of_old, waiting.least_of_new)
      redis.call('ZADD', KEYS[2], 'NX', ARGV[1], found[i])
      redis.call('ZADD', KEYS[3], 'NX', string.format('%.0f', least), found[i])
      all = all + waiting.recorded
      if is_parked(found[i]) then count_parked(KEYS[1], waiting.recorded, 1) end
    end
  end
  redis.call('HSET', KEYS[1], '*', all)
end
local due, reply = {}, {0}
if tonumber(ARGV[2]) > 0 then
  due = redis.call(
    'ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2]
  )
end
reply[1] = #due / 2
for i = 1, #due, 2 do
  local count = string.match(redis.call('HGET', KEYS[1], due[i]) or '', '^%d+')
  reply[#reply + 1] = due[i]
  reply[#reply + 1] = tonumber(count) or 1
  reply[#reply + 1] = due[i + 1]
end
return reply
