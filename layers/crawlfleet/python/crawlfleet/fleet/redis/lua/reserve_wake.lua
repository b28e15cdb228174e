-- reserve_wake: how many workers are missing, each of them reserved for the caller to start.
-- KEYS[1] workers       ZSET  worker id -> epoch ms of its last beat
-- KEYS[2] wakes         ZSET  wake-up not yet a worker -> epoch ms of its reservation
-- KEYS[3] leaving       ZSET  worker that is told to leave -> server's epoch ms
-- ARGV[1] now           epoch ms; nothing for the server's
-- ARGV[2] liveness      ms: a worker that has not beaten for so long is taken to be dead
-- ARGV[3] wake term     ms: a reservation that is so old has come to nothing
-- ARGV[4] memory        ms: a worker that has not beaten for so long is removed
-- ARGV[5] wanted        how many shall live
-- ARGV[6] name          of this call's reservations, which append a number
-- ARGV[7] most          that may be reserved by this call
-- reply   how many the caller shall start
even_when_full(KEYS[1])
local now = tonumber(ARGV[1]) or server_ms()
local function before(span) return string.format('%.0f', now - span) end
local live_after = before(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', before(ARGV[4]))
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', before(ARGV[3]))
local live = redis.call('ZCOUNT', KEYS[1], '(' .. live_after, '+inf') + redis.call('ZCARD', KEYS[2])
for _, worker in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  local beaten = redis.call('ZSCORE', KEYS[1], worker)
  if beaten and tonumber(beaten) > tonumber(live_after) then live = live - 1 end
end
local missing = math.max(0, math.min(tonumber(ARGV[5]) - live, tonumber(ARGV[7])))
for i = 1, missing do redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[6] .. ':' .. i) end
return missing
