-- report_host: what a worker has seen of a host since its last report (policy.strain has the law).
-- KEYS[1] host_turns    HASH  * -> the host, tenant -> its turns; numbers, see host_prelude
-- KEYS[2] host_permits  ZSET  'worker tenant' -> epoch us at which its permits end
-- KEYS[3] host_held     HASH  'worker tenant' -> 'count granted', how many and epoch us
-- ARGV[1] tenant        for whom
-- ARGV[2] worker        by whom
-- ARGV[3] running       how many are under way or have a turn
-- ARGV[4] answered      answers that did not ask for less
-- ARGV[5] sample        us that each took on average
-- ARGV[6] strained      answers that asked for less, or none at all
-- ARGV[7] retry after   us that were asked for, at most what may be
-- ARGV[8] interval      us between two turns by the host's rate
-- ARGV[9] concurrency   downloads at once
-- ARGV[10] adaptive     1 or 0
-- ARGV[11] back off     us after the first strain
-- ARGV[12] longest      us of a back-off
-- ARGV[13] now          epoch us, or empty for the server's clock
-- reply   strain
local REMAINS, MOST_ANSWERS, MOST_STRAIN = 0.75, 64, 32
even_when_full(KEYS[1])
local tenant, running, answered = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local strained, interval = tonumber(ARGV[6]), tonumber(ARGV[8])
local concurrency, adaptive = tonumber(ARGV[9]), ARGV[10] == '1'
local now = tonumber(ARGV[13]) or server_us()
local host = load_host(now, tenant)

local function span()
  if host.strain == 0 then return 0 end
  return math.min(tonumber(ARGV[11]) * 2 ^ (host.strain - 1), tonumber(ARGV[12]))
end

-- 1. permits
local member = ARGV[2] .. ' ' .. tenant
local count, before, granted_at = keeps(member, running, concurrency, now)
local until_us = false
if running > 0 then
  until_us = now + PERMIT
elseif before and now - granted_at < GRACE then
  until_us = granted_at + GRACE
end
local own = host.tenants[tenant]
if not own and until_us then
  own = {last = 0, interval = interval, share_at = 0, unmet_at = 0, want = 0, permits = 0}
  own.concurrency, own.served_at = concurrency, 0
  host.tenants[tenant] = own
end
if own then
  own.permits = math.max(0, own.permits - (before or 0)) + (until_us and count or 0)
  own.changed = true
end
hold(member, count, granted_at, until_us)

-- 2. pace
if answered > 0 then
  local sample = tonumber(ARGV[5])
  local answer = sample
  if host.answer > 0 then
    answer = host.answer
      + (sample - host.answer) * (1 - REMAINS ^ math.min(answered, MOST_ANSWERS))
  end
  answer = math.min(answer, 2 * math.max(host.answer, interval * concurrency))
  host.answer = math.max(1, math.floor(answer))
  local pace = math.floor(host.answer / concurrency)
  host.pace = adaptive and pace > interval and pace or 0
end

-- 3. strain
if strained > 0 then
  if now < host.until_us then
    host.until_us = math.max(host.until_us, now + ARGV[7])
  else
    host.strain = math.min(host.strain + 1, MOST_STRAIN)
    host.slow = adaptive and span() or 0
    host.until_us = now + math.max(span(), tonumber(ARGV[7]))
  end
elseif answered > 0 and host.strain > 0 and now >= host.until_us then
  host.strain = host.strain - 1
  host.slow = adaptive and span() or 0
end
save_host(host, now)
return host.strain
