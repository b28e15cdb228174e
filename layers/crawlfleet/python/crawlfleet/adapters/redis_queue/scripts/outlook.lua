-- outlook: what lies ahead of the workers in a lane.
-- KEYS[1] queue       LIST  entries as JSON, served from the tail
-- KEYS[2] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[3] delayed     ZSET  entry -> epoch ms at which it is due
-- KEYS[4] parked      HASH  host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[5] parked_due  ZSET  host -> epoch ms at which it is looked at
-- KEYS[6] parked_low  ZSET  host -> least ts of its list
-- ARGV[1] now         epoch ms
-- ARGV[2] soon        epoch ms
-- ARGV[3] sample      how many hosts are named, at most
-- reply   {what a lease would find in the queue, leased, due by soon, parked as text, hosts, hosts
--          due by soon, the entry to be served next or nil, the least ts of what is parked or nil,
--          host, how many wait for it, host...}
local ended = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[1])
local reply = {
  redis.call('LLEN', KEYS[1]) + ended,
  redis.call('ZCARD', KEYS[2]) - ended,
  redis.call('ZCOUNT', KEYS[3], '-inf', ARGV[2]),
  redis.call('HGET', KEYS[4], '*') or '0',
  redis.call('ZCARD', KEYS[5]),
  redis.call('ZCOUNT', KEYS[5], '-inf', ARGV[2]),
  redis.call('LINDEX', KEYS[1], -1),
  redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2] or false,
}
if tonumber(ARGV[3]) < 1 then return reply end
local hosts = redis.call('ZRANGE', KEYS[5], 0, ARGV[3] - 1)
if #hosts > 0 then
  for i, figures in ipairs(redis.call('HMGET', KEYS[4], unpack(hosts))) do
    reply[#reply + 1] = hosts[i]
    -- Of one that the HASH has lost at least one entry waits.
    reply[#reply + 1] = tonumber(string.match(figures or '', '^%d+') or 1)
  end
end
return reply
