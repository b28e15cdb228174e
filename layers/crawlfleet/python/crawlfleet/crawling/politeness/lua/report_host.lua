-- report_host: what a worker has seen of a host since its last report (SPEC.md H3).
-- KEYS[1] host     HASH  * -> the host, tenant -> its slots, 'worker tenant' -> permits
-- KEYS[2] strain   HASH  origin -> its overload, for all tenants
-- KEYS[3] own      HASH  origin -> its overload, for this tenant; * -> its pace
-- ARGV[1] tenant   for whom
-- ARGV[2] worker   by whom
-- ARGV[3] figures  'running failed answered sample overloads retry_after own_answered own_sample
--                  own_overloads own_retry_after interval concurrency adaptive back_off longest
--                  now': downloads in flight or with a slot; answers that failed; answers of the
--                  host that did not ask for less, and us that each took; its overload answers (429,
--                  503), and us that they asked for; the same of what this tenant alone goes by:
--                  what came through proxies, and failed connections; the host's limits; epoch us or
--                  nothing for the server's clock
-- ARGV[4] origin   of which it was seen, or '' where nothing was
-- reply   how many overloads in a row count for this tenant
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
-- each overload that was counted before. It is the origin's alone, and for all tenants only where
-- the host itself has answered so: a connection fails by the port that was chosen, and a proxy says
-- what its owner wants. So nobody can keep a host from others but by what the host says to it.
-- Answers during a back-off began earlier, so they count no further, but for a Retry-After that is
-- longer. Whatever the site asks for, and however often it was overloaded, the limits cap it.
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
local running, failed, answered, sample, overloads, retry_after, own_answered, own_sample,
  own_overloads, own_retry_after, interval, concurrency, adaptive, back_off, longest, now =
  unpack(figures)
adaptive, now = adaptive == 1, now or server_us()
local host, origin = load_host(now, tenant, ARGV[2]), ARGV[4]

local function span(overload)
  if overload == 0 then return 0 end
  return min(back_off * 2 ^ (overload - 1), longest)
end

-- The moving average after so many answers, and the pace that comes of it.
local function measured(average, count, of)
  local found = of
  if average > 0 then
    found = average + (of - average) * (1 - REMAINS ^ min(count, MOST_ANSWERS))
  end
  found = max(1, floor(min(found, 2 * max(average, interval * concurrency))))
  local pace = floor(found / concurrency)
  return found, adaptive and pace > interval and pace or 0
end

-- An overload more, or one less; tells whether that changes anything.
local function move(one, more, asked, fewer)
  if more > 0 then
    if now < one.until_us then
      one.until_us = max(one.until_us, now + asked)
    else
      one.overload = min(one.overload + 1, MOST_OVERLOADS)
      one.slow = adaptive and span(one.overload) or 0
      one.until_us = now + max(span(one.overload), asked)
    end
    return true
  end
  if fewer == 0 or one.overload == 0 or now < one.until_us then return false end
  one.overload = one.overload - 1
  one.slow = adaptive and span(one.overload) or 0
  return true
end

local function moved(key, more, asked, fewer)
  local one = load_strain(key, origin)
  if move(one, more, asked, fewer) then
    local text = one.overload > 0
      and format('%.0f %.0f %.0f', one.until_us, one.overload, one.slow) or nil
    save_strain(key, origin, text, one.until_us, now)
  end
  return one.overload
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
    concurrency = concurrency, served_at = 0, share = 1,
  }
end

-- 2. pace
if answered > 0 then host.answer, host.pace = measured(host.answer, answered, sample) end
if own_answered > 0 then
  local answer, pace = measured(load_own_pace(KEYS[3]), own_answered, own_sample)
  save_strain(KEYS[3], '*', format('%.0f %.0f', answer, pace), 0, now)
end

-- 3. overload
local overload = 0
if origin ~= '' then
  move(host, 0, 0, overloads == 0 and answered or 0)
  overload = max(
    host.overload,
    moved(KEYS[2], overloads, retry_after, answered),
    moved(KEYS[3], own_overloads, own_retry_after, answered + own_answered)
  )
end
local spent = answered * sample + own_answered * own_sample
answered, overloads = answered + own_answered, overloads + own_overloads

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
  counts[5] = counts[5] + spent
  host.counts = string.rep(' %.0f', 9):format(unpack(counts, 1, 9))
end
save_host(host, now, tenant, count, granted_at, until_us)
return overload
