-- retire: a worker that has nothing to do ends, unless too few would be left: then nothing changes.
-- KEYS[1] workers     ZSET  worker id -> epoch ms of its last beat, by the callers' clocks
-- KEYS[2] pulses      ZSET  worker id -> epoch ms of its last beat, by the server's clock
-- KEYS[3] intervals   HASH  worker id -> its latest intervals
-- KEYS[4] cards       HASH  worker id -> its status as JSON
-- KEYS[5] leaving     ZSET  worker that is told to leave -> server's epoch ms
-- ARGV[1] worker      its id
-- ARGV[2] live after  epoch ms: a worker whose last beat is not later is taken to be dead
-- ARGV[3] least       how many others must live that are not told to leave
-- reply   1 if it has ended, 0 if it stays
local others = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[2], '+inf')
local function lives(worker)
  local beaten = redis.call('ZSCORE', KEYS[1], worker)
  return beaten and tonumber(beaten) > tonumber(ARGV[2])
end
if lives(ARGV[1]) then others = others - 1 end
for _, worker in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
  if worker ~= ARGV[1] and lives(worker) then others = others - 1 end
end
if others < tonumber(ARGV[3]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
return 1
