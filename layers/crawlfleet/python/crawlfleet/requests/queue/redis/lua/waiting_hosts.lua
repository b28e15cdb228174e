-- waiting_hosts: some places (requests.queue.ageing) of a queue at which entries wait, those due last first.
-- KEYS[1] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[2] parked_due  ZSET  place -> epoch ms at which it is looked at
-- ARGV[1] count       of places at most
-- reply   {how many places, place, count, epoch ms as text, place...}
local reply = {0}
local found = redis.call('ZREVRANGE', KEYS[2], 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local count = string.match(redis.call('HGET', KEYS[1], found[i]) or '', '^%d+')
  if count then
    reply[1] = reply[1] + 1
    reply[#reply + 1] = found[i]
    reply[#reply + 1] = tonumber(count)
    reply[#reply + 1] = found[i + 1]
  end
end
return reply
