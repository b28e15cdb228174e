-- beat: a worker lives. The first beat of a worker takes the place of one reserved wake-up.
-- KEYS[1] workers     ZSET  worker id -> epoch ms of its last beat, by the callers' clocks
-- KEYS[2] wakes       ZSET  wake-up not yet a worker -> epoch ms of its reservation
-- KEYS[3] pulses      ZSET  worker id -> epoch ms of its last beat, by the server's clock
-- KEYS[4] intervals   HASH  worker id -> its latest intervals in ms, the newest last
-- KEYS[5] cards       HASH  worker id -> its status as JSON
-- KEYS[6] watch       HASH  since when the fleet is observed, and when it was last
-- ARGV[1] worker      its id
-- ARGV[2] now         epoch ms, by the caller's clock
-- ARGV[3] live after  epoch ms: a worker whose last beat is not later is taken to be dead
-- ARGV[4] forget      epoch ms: a worker whose last beat is not later is removed
-- ARGV[5] status      JSON
-- ARGV[6] window      how many intervals are kept
-- ARGV[7] memory      ms for which a silent worker is remembered
-- ARGV[8] lapse       ms after which the fleet was not observed
-- reply   1 if the worker was known, 0 if it is new, was reaped or is forgotten
local SWEEP = 100
even_when_full(KEYS[1])
local worker, now = ARGV[1], server_ms()

-- 1. forget
local gone = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[7], 'LIMIT', 0, SWEEP)
apply('ZREM', KEYS[3], gone)
apply('HDEL', KEYS[4], gone)
apply('HDEL', KEYS[5], gone)

-- 2. the heartbeat. An interval counts if all of it was observed: an outage of Redis is no habit of
-- the worker's.
local since = watched_since(KEYS[6], now, ARGV[8])
local last = tonumber(redis.call('ZSCORE', KEYS[3], worker))
if last and last >= since and last <= now then
  local kept = {}
  for interval in string.gmatch(redis.call('HGET', KEYS[4], worker) or '', '%d+') do
    kept[#kept + 1] = interval
  end
  kept[#kept + 1] = string.format('%.0f', now - last)
  local first = math.max(1, #kept - ARGV[6] + 1)
  redis.call('HSET', KEYS[4], worker, table.concat(kept, ' ', first))
end
redis.call('ZADD', KEYS[3], now, worker)
redis.call('HSET', KEYS[5], worker, ARGV[5])

-- 3. counted as live
local counted = redis.call('ZSCORE', KEYS[1], worker)
redis.call('ZADD', KEYS[1], ARGV[2], worker)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[4])
if not counted or tonumber(counted) <= tonumber(ARGV[3]) then redis.call('ZPOPMIN', KEYS[2]) end
return last and 1 or 0
