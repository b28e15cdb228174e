-- report_host: what a worker has seen of a host since its last report (SPEC.md H3).
-- KEYS[1] host     HASH  * -> the host, tenant -> its slots, 'worker tenant' -> permits
-- ARGV[1] tenant   for whom
-- ARGV[2] worker   by whom
-- ARGV[3] figures  'running answered failed sample overloads retry_after interval concurrency
--                  adaptive back_off longest now': downloads in flight or with a slot; answers that
--                  did not ask for less, those of them that failed, and us that each took; overload
--                  answers (429, 503, no connection), and us that they asked for; the host's limits;
--                  epoch us or nothing for the server's clock
-- reply   how many overloads in a row count
--
-- Pace. `answer` is how long an answer takes: a moving average in which each answer counts a quarter.
-- The host is asked once in answer / concurrency, if that is longer than what lies between its slots
-- anyway: so many answers are in flight at once, as Scrapy's AutoThrottle wants it, and that many
-- permits can just serve the slots that are granted. Slots of a slow host so come evenly instead of
-- in bursts as long as its concurrency, and none is granted that nobody could use. A host that
-- answers within `concurrency` intervals is not slowed at all. Unlike AutoThrottle this counts the
-- whole fleet's answers, and one report at most doubles the average, beginning from what would slow
-- nobody: one slow page among quick ones does not slow a host, a host that gets slow is relieved
-- within a few reports, and its permits bound what is in flight meanwhile.
--
-- Overload (AIMD). A 429, a 503 or a failed connection begins a back-off of `back_off`, doubled for
-- each overload that was counted before. Answers during a back-off began earlier, so they count no
-- further, but for a Retry-After that is longer. Whatever the site asks for, and however often it was
-- overloaded, the limits cap it.
--
-- Recovery. After the back-off the host is tried before it is trusted: the interval is doubled for
-- each overload that counts, up to the length of its back-off (where `adaptive` is on). Each report
-- of answers without overload takes one off. So a host that was left alone for ten minutes gets one
-- request and then twice as many with each report, instead of a full horizon of them that may hit it
-- as hard as before.
--
-- Nothing of this ever makes an interval shorter than the limits.
local REMAINS, MOST_ANSWERS, MOST_OVERLOADS, MINUTE = 0.75, 64, 32, 60000000
even_when_full(KEYS[1])
local tenant, figures = ARGV[1], {}
for figure in string.gmatch(ARGV[3], '%d+') do figures[#figures + 1] = tonumber(figure) end
local running, answered, failed, sample, overloads, retry_after, interval, concurrency, adaptive,
  back_off, longest, now = unpack(figures)
adaptive, now = adaptive == 1, now or server_us()
local host = load_host(now, tenant, ARGV[2])

local function span()
  if host.overload == 0 then return 0 end
  return min(back_off * 2 ^ (host.overload - 1), longest)
end

-- 1. permits
local count, granted_at = kept_by(host, running, concurrency, now), host.granted_at or 0
local until_us = nil
if running > 0 then
  until_us = now + PERMIT
elseif host.held and now - granted_at < GRACE then
  until_us = granted_at + GRACE
end
if not host.tenants[tenant] and until_us then
  host.tenants[tenant] = {
    last = 0, interval = interval, share_at = 0, unmet_at = 0, want = 0,
    concurrency = concurrency, served_at = 0,
  }
end

-- 2. pace
if answered > 0 then
  local measured = sample
  if host.answer > 0 then
    measured = host.answer
      + (sample - host.answer) * (1 - REMAINS ^ min(answered, MOST_ANSWERS))
  end
  measured = min(measured, 2 * max(host.answer, interval * concurrency))
  host.answer = max(1, floor(measured))
  local pace = floor(host.answer / concurrency)
  host.pace = adaptive and pace > interval and pace or 0
end

-- 3. overload
if overloads > 0 then
  if now < host.until_us then
    host.until_us = max(host.until_us, now + retry_after)
  else
    host.overload = min(host.overload + 1, MOST_OVERLOADS)
    host.slow = adaptive and span() or 0
    host.until_us = now + max(span(), retry_after)
  end
elseif answered > 0 and host.overload > 0 and now >= host.until_us then
  host.overload = host.overload - 1
  host.slow = adaptive and span() or 0
end

-- 4. counts: 'minute', then answered, failed, overloads, us spent of it, and of the minute before
if answered > 0 or overloads > 0 then
  local counts = {0, 0, 0, 0, 0, 0, 0, 0, 0}
  local at = 0
  for number in string.gmatch(host.counts, '%d+') do
    at = at + 1
    counts[at] = tonumber(number)
  end
  local minute = floor(now / MINUTE)
  if minute > counts[1] then
    local follows = minute == counts[1] + 1
    for i = 2, 5 do
      counts[i + 4] = follows and counts[i] or 0
      counts[i] = 0
    end
    counts[1] = minute
  end
  counts[2] = counts[2] + answered
  counts[3] = counts[3] + min(failed, answered)
  counts[4] = counts[4] + overloads
  counts[5] = counts[5] + answered * sample
  host.counts = string.rep(' %.0f', 9):format(unpack(counts, 1, 9))
end
save_host(host, now, tenant, count, granted_at, until_us)
return host.overload
