-- work: what lies ahead of the workers in a queue.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] delayed     ZSET  entry -> epoch ms at which it is due
-- KEYS[3] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[4] parked_due  ZSET  place -> epoch ms at which it is looked at
-- KEYS[5] parked_low  ZSET  place -> least ts of its list
-- KEYS[6..16]         LIST  entries of priority 0 to 10, served from the tail
-- ARGV[1] now         epoch ms
-- ARGV[2] soon        epoch ms
-- ARGV[3] sample      how many places of hosts are named, at most
-- reply   {what a lease would find in the queue, leased, due by soon, deferred as text, places, those
--          due by soon but for those of quotas, of each priority the entry to be served next as
--          lines, the least ts of what is deferred or nil, entries that wait for quotas as text,
--          their lists as text, place, how many wait there, place...}
local heads = {}
for level = 0, LEVELS - 1 do
  heads[#heads + 1] = redis.call('LINDEX', KEYS[6 + level], -1) or nil
end
local ended = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1])
local reply = {
  queued(6) + ended,
  redis.call('ZCARD', KEYS[1]) - ended,
  redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[2]),
  redis.call('HGET', KEYS[3], '*') or '0',
  redis.call('ZCARD', KEYS[4]),
  redis.call('ZCOUNT', KEYS[4], '-inf', ARGV[2]),
  table.concat(heads, '\n'),
  redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2] or false,
  redis.call('HGET', KEYS[3], '*parked') or '0',
  redis.call('HGET', KEYS[3], '*accounts') or '0',
}
if tonumber(ARGV[3]) < 1 then return reply end
local found, hosts = redis.call('ZRANGE', KEYS[4], 0, ARGV[3] - 1, 'WITHSCORES'), {}
for i = 1, #found, 2 do
  hosts[#hosts + 1] = found[i]
  -- When work goes on under a quota is not for the queue to say.
  if string.sub(found[i], 1, 8) == 'quota://' and tonumber(found[i + 1]) <= tonumber(ARGV[2]) then
    reply[6] = reply[6] - 1
  end
end
if #hosts > 0 then
  for i, figures in ipairs(redis.call('HMGET', KEYS[3], unpack(hosts))) do
    reply[#reply + 1] = hosts[i]
    -- Of one that the HASH has lost at least one entry waits.
    reply[#reply + 1] = tonumber(string.match(figures or '', '^%d+') or 1)
  end
end
return reply
