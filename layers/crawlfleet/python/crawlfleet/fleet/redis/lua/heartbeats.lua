-- heartbeats: read the workers that were silent for so long, or all; reading observes the fleet.
-- KEYS[1] pulses      ZSET  worker id -> epoch ms of its last beat, by the server's clock
-- KEYS[2] intervals   HASH  worker id -> its latest intervals in ms, the newest last
-- KEYS[3] cards       HASH  worker id -> its status as JSON
-- KEYS[4] watch       HASH  since when the fleet is observed, and when it was last
-- ARGV[1] silent for  ms; 0 for all
-- ARGV[2] lapse       ms after which the fleet was not observed
-- reply   {ms for which the fleet was observed,
--          {worker, silent ms, intervals, status, ms since its last beat} of each, the longest
--          silent first...}
--
-- Silence counts from when observation began: what was silent while Redis did not answer, or while
-- nobody spoke to it, is not held against a worker.
even_when_full(KEYS[4])
local now, least = server_ms(), tonumber(ARGV[1])
local since = watched_since(KEYS[4], now, ARGV[2])
local found = {now - since}

local function tell(workers)
  for i = 1, #workers, 2 do
    local worker, last = workers[i], tonumber(workers[i + 1])
    local beaten = math.max(0, now - last)
    -- A beat in the future: the clock was set back since.
    if last > now or last < since then last = since end
    found[#found + 1] = {
      worker,
      now - last,
      redis.call('HGET', KEYS[2], worker) or '',
      redis.call('HGET', KEYS[3], worker) or '',
      beaten,
    }
  end
end

if now - since >= least then
  tell(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - least, 'WITHSCORES'))
  tell(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES'))
end
return found
