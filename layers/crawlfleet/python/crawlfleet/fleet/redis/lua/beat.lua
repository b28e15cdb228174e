-- beat: a worker lives. The first beat of a worker takes the place of one reserved wake-up.
-- KEYS[1] workers     ZSET  worker id -> epoch ms of its last beat, by the callers' clocks
-- KEYS[2] wakes       ZSET  wake-up not yet a worker -> epoch ms of its reservation
-- KEYS[3] pulses      ZSET  worker id -> epoch ms of its last beat, by the server's clock
-- KEYS[4] intervals   HASH  worker id -> its latest intervals in ms, the newest last
-- KEYS[5] cards       HASH  worker id -> its status as JSON
-- KEYS[6] watch       HASH  since when the fleet is observed, and when it was last
-- KEYS[7] proxies     HASH  'pool key' -> the state of a proxy (proxies_prelude.lua)
-- KEYS[8] seen        ZSET  'pool key' -> when it was reported last
-- KEYS[9] news        ZSET  'pool key' -> the number of its last change
-- KEYS[10] pools      HASH  pool -> its size, and how many are away
-- ARGV[1] worker      its id
-- ARGV[2] now         epoch ms, by the caller's clock
-- ARGV[3] live after  epoch ms: a worker whose last beat is not later is taken to be dead
-- ARGV[4] forget      epoch ms: a worker whose last beat is not later is removed
-- ARGV[5] status      JSON
-- ARGV[6] window      how many intervals are kept
-- ARGV[7] memory      ms for which a silent worker is remembered
-- ARGV[8] lapse       ms after which the fleet was not observed
-- ARGV[9] news        the latest that it knows of proxies; nothing where the stage has none
-- ARGV[10] try        ms for which the try of a proxy is granted
-- ARGV[11] half-life  ms after which what was counted of a proxy counts half
-- ARGV[12...]         its reports about proxies
-- reply   {1 if the worker was known, 0 if it is new, was reaped or is forgotten,
--          {the latest news, the news of proxies}, where it was asked for}
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
local known = last and 1 or 0
if ARGV[9] == '' then return {known} end

-- 4. proxies
local keys = {proxies = KEYS[7], seen = KEYS[8], news = KEYS[9], pools = KEYS[10]}
local reports = {unpack(ARGV, 12)}
return {known, exchange_proxies(keys, worker, now, tonumber(ARGV[9]), tonumber(ARGV[10]),
  tonumber(ARGV[11]), reports)}
