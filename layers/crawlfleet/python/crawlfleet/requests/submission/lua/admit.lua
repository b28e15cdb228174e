-- admit: whether a biz takes more now; what is taken counts towards its rate.
-- KEYS[1] intake       STRING  epoch us at which the rate's bucket is full again
-- KEYS[2] leases       ZSET    token:entry -> epoch ms at which the lease ends
-- KEYS[3] delayed      ZSET    entry -> epoch ms at which it is due
-- KEYS[4] parked       HASH    host -> what waits for it, * -> count of all
-- KEYS[5..15]          LIST    entries of priority 0 to 10
-- KEYS[16..]           the same 14, from the leases on, of each other queue of the biz
-- ARGV[1] count        how many more
-- ARGV[2] max backlog  how many there may be
-- ARGV[3] per second   the rate, or empty for none
-- ARGV[4] burst        how many may come at once
-- ARGV[5] ratio        of maxmemory that may be used
-- ARGV[6] now          epoch us, or empty for the server's clock; past 2^43, so written by format
-- reply   {backlog, 1 if it is full, 1 if memory is full, us to wait as text}
--
-- The rate is GCRA: each request pushes the moment at which the bucket is full again by one interval.
-- A batch that is larger than what may come at once, or than the backlog, is taken when the bucket,
-- or the biz, is empty of others: it would be refused for ever otherwise.
-- A clock other than the server's may differ from it by this before a limit is forgotten too early.
local MARGIN_MS = 60000
-- No wait is longer.
local LONGEST_US = 30 * 86400 * 1000000
local count, now = tonumber(ARGV[1]), tonumber(ARGV[6]) or server_us()
local backlog = 0
for at = 2, #KEYS, 14 do
  backlog = backlog + queued(at + 3) + redis.call('ZCARD', KEYS[at])
    + redis.call('ZCARD', KEYS[at + 1]) + (redis.call('HGET', KEYS[at + 2], '*') or 0)
end
local backlog_full = backlog > 0 and backlog + count > tonumber(ARGV[2])

local memory = account('memory')
local most = tonumber(fact_of(memory, 'maxmemory') or 0)
local memory_full = most > 0 and tonumber(fact_of(memory, 'used_memory')) > most * ARGV[5]

local wait, full_at = 0, nil
if ARGV[3] ~= '' then
  local interval = math.min(LONGEST_US, 1000000 / ARGV[3])
  full_at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
  wait = full_at - now - math.max(0, (ARGV[4] - count) * interval)
  full_at = math.min(now + LONGEST_US, full_at + count * interval)
end

if full_at and wait <= 0 and not backlog_full and not memory_full then
  even_when_full(KEYS[1])
  local life = (full_at - now) / 1000 + MARGIN_MS
  redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', string.format('%.0f', life))
end
return {
  backlog,
  backlog_full and 1 or 0,
  memory_full and 1 or 0,
  string.format('%.0f', math.max(0, math.ceil(wait))),
}
