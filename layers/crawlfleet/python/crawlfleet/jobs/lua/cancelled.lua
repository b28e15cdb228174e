-- cancelled: list announcements of jobs that are being cancelled, the oldest first.
-- KEYS[1] cancelled  ZSET  tenant/biz/job -> server's epoch ms of its latest announcement
-- ARGV[1] since      epoch ms by the server's clock; 0 is from the beginning
-- ARGV[2] kept       ms for which an announcement stands
-- ARGV[3] most       announcements in one answer
-- reply   {from when to ask the next time, tenant/biz/job...}
local now, since = server_ms(), tonumber(ARGV[1])
if since > now then since = 0 end
since = math.max(since, now - ARGV[2] + 1)
local found = redis.call(
  'ZRANGEBYSCORE', KEYS[1], since, now, 'WITHSCORES', 'LIMIT', 0, ARGV[3]
)
local answer = { now }
for i = 1, #found, 2 do answer[#answer + 1] = found[i] end
if #found == 2 * ARGV[3] then
  -- There may be more. Of one moment there are never so many that this would stand still.
  answer[1] = math.floor(tonumber(found[#found]))
end
return answer
