-- announce_cancelled: announce to workers that jobs are being cancelled.
-- KEYS[1] cancelled  ZSET  tenant/biz/job -> server's epoch ms of its latest announcement
-- ARGV[1] kept       ms for which an announcement stands
-- ARGV[2] most       announcements that are kept; of more the oldest go of who has most
-- ARGV[3..]          tenant/biz/job of each
-- reply   announcements that stand
even_when_full(KEYS[1])
local now = server_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
-- Of a time that has not come: the clock was set back since.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
local over = redis.call('ZCARD', KEYS[1]) - ARGV[2]
if over > 0 then
  -- A tenant that cancels thousands pushes out its own.
  local of, counts = {}, {}
  for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    local tenant = string.match(string.gsub(name, '^quotas:', ''), '^[^/]*')
    if not of[tenant] then of[tenant], counts[tenant] = {}, 0 end
    counts[tenant] = counts[tenant] + 1
    of[tenant][counts[tenant]] = name
  end
  local gone = {}
  for _ = 1, over do
    local most
    for tenant, count in pairs(counts) do
      if not most or count > counts[most] then most = tenant end
    end
    gone[most] = (gone[most] or 0) + 1
    redis.call('ZREM', KEYS[1], of[most][gone[most]])
    counts[most] = counts[most] - 1
  end
end
return redis.call('ZCARD', KEYS[1])
