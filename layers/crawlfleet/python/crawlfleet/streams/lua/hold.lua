-- hold: take, keep or release the hold of one channel.
-- KEYS[1] hold    HASH  worker, fence, until (epoch ms), and of what Redis knows: run, since (ms)
-- ARGV[1] now     epoch ms; '' for the server's clock
-- ARGV[2] action  take, keep or release
-- ARGV[3] worker  who asks
-- ARGV[4] fence   that it was offered; 0 with take
-- ARGV[5] offer   ms that an offer stands
-- ARGV[6] lease   ms that a hold stands
-- ARGV[7] kept    ms after which a channel that nobody asks for is forgotten
-- reply   {1, fence, 0} where it is done, else {0, 0, ms after which to take it again}
--
-- The key may be lost, or be of before a failover. Holds that this server does not know of end by
-- themselves: it grants nothing until it has been asked for a whole lease.
local now = tonumber(ARGV[1]) or server_ms()
local action, worker, fence = ARGV[2], ARGV[3], ARGV[4]
local found = redis.call('HMGET', KEYS[1], 'worker', 'fence', 'until', 'run', 'since')
local holder, standing, ends = found[1], found[2] or '0', tonumber(found[3] or 0)
local run, since = found[4], tonumber(found[5] or 0)
local here = fact_of(account('server'), 'run_id')
even_when_full(KEYS[1])
if run ~= here or since > now then
  run, since = here, now
  redis.call('HSET', KEYS[1], 'run', run, 'since', string.format('%.0f', since))
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])

local function set(until_ms)
  redis.call('HSET', KEYS[1], 'worker', worker, 'fence', fence, 'until', string.format('%.0f', until_ms))
  return {1, tonumber(fence), 0}
end

if action ~= 'take' then
  if standing ~= fence or holder ~= worker or ends <= now then return {0, 0, 0} end
  return set(action == 'keep' and now + ARGV[6] or 0)
end
local free_at = math.max(ends, since + ARGV[6])
if free_at > now then return {0, 0, free_at - now} end
fence = string.format('%.0f', math.max(tonumber(standing) + 1, now))
return set(now + ARGV[5])
