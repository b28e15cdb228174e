-- host_prelude: stands after the prelude before every script about a host (tests/fakes/politeness.py
-- does the same in memory, number for number). All times are whole us, moments those of the epoch:
-- below 2^53, so a Lua number holds them; '%.0f' writes them.
--
-- A host is one HASH:
-- '*'              the host: its latest slot (last) and the interval after it (gap), the end of its
--                  back-off (until_us), overloads in a row (overload), how long an answer takes
--                  (answer), the interval that comes of it (pace, 0 for none), up to what interval
--                  overload doubles it (slow), and the counts of two minutes
-- tenant           its latest slot and interval, from when its share begins again (share_at), when it
--                  got less than it asked for because of others (unmet_at), how many permits it would
--                  have (want), its concurrency, when it got a slot (served_at), and its share of
--                  what several have (1 where an older version wrote it)
-- 'worker tenant'  permits: how many, when slots were granted last, until when
--
-- Overload is kept by origin (scheme, host and port) in two HASHes, origin -> 'until_us overload
-- slow': one that all tenants go by, of what the host itself answered, and one of each tenant, of
-- its failed connections and of what proxies answered. The latter has under '*' how long answers
-- take through its proxies, and the pace that comes of it. until_us, overload and slow of the host
-- are those of older versions: they are obeyed and get less, never more.

local HORIZON, PERMIT, DEMAND = 2000000, 30000000, 10000000
local GRACE, IDLE, FLEETING, ORIGINS = 1000000, 3600000000, 150000000, 16

local match, format, floor, ceil = string.match, string.format, math.floor, math.ceil
local min, max = math.min, math.max

-- The host as it is now: permits that have ended are gone, and tenants of whom nothing is left but
-- the one who asks. host.held are the permits of host.member, the worker and tenant that call, nil
-- if none are known. What a clock set back has made too late is brought back to where it can be.
local function load_host(now, asking, worker)
  local host = {last = 0, gap = 0, until_us = 0, overload = 0, answer = 0, pace = 0, slow = 0}
  host.counts = ''
  host.tenants, host.count, host.member = {}, 0, worker .. ' ' .. asking
  local found, over, permits = redis.call('HGETALL', KEYS[1]), {}, {}
  local latest = now + HORIZON
  for i = 1, #found, 2 do
    local name, text = found[i], found[i + 1]
    local of = match(name, ' (%S*)$')
    if of then
      local count, granted_at, ends = match(text, '(%d+) (%d+) (%d+)')
      granted_at, ends = tonumber(granted_at), tonumber(ends)
      if ends <= now then
        over[#over + 1] = name
      else
        if granted_at > now or ends > now + PERMIT then
          granted_at, ends = min(granted_at, now), min(ends, now + PERMIT)
          redis.call('HSET', KEYS[1], name, format('%s %.0f %.0f', count, granted_at, ends))
        end
        permits[of] = (permits[of] or 0) + count
        if name == host.member then
          host.held, host.granted_at = tonumber(count), granted_at
        end
      end
    elseif name == '*' then
      local last, gap, until_us, overload, answer, pace, slow, counts =
        match(text, '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)')
      host.counts = counts
      host.last, host.gap, host.until_us = min(last, latest), tonumber(gap), tonumber(until_us)
      host.overload, host.answer = tonumber(overload), tonumber(answer)
      host.pace, host.slow = tonumber(pace), tonumber(slow)
    else
      local last, interval, share_at, unmet_at, want, concurrency, served_at, share =
        match(text, '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ?(%d*)')
      host.tenants[name] = {
        last = min(last, latest), interval = tonumber(interval), share_at = tonumber(share_at),
        unmet_at = min(unmet_at, now), want = tonumber(want), concurrency = tonumber(concurrency),
        served_at = min(served_at, now), share = tonumber(share) or 1, permits = 0,
        changed = tonumber(last) > latest or max(unmet_at, served_at) > now,
      }
    end
  end
  for name, one in pairs(host.tenants) do
    one.permits = permits[name] or 0
    if name ~= asking and one.permits == 0 and one.last + one.interval <= now
      and one.share_at <= now and one.unmet_at + DEMAND <= now then
      host.tenants[name] = nil
      over[#over + 1] = name
    else
      host.count = host.count + 1
    end
  end
  apply('HDEL', KEYS[1], over)
  return host
end

-- The overload of an origin; of '' the longest and highest of all origins.
local function load_strain(key, origin)
  local found = {until_us = 0, overload = 0, slow = 0}
  local texts = origin == '' and redis.call('HVALS', key) or {redis.call('HGET', key, origin)}
  for _, text in ipairs(texts) do
    local until_us, overload, slow = match(text or '', '^(%d+) (%d+) (%d+)$')
    if until_us then
      found.until_us = max(found.until_us, tonumber(until_us))
      found.overload = max(found.overload, tonumber(overload))
      found.slow = max(found.slow, tonumber(slow))
    end
  end
  return found
end

-- How long an answer takes through the proxies of a tenant, and the pace that comes of it.
local function load_own_pace(key)
  local answer, pace = match(redis.call('HGET', key, '*') or '', '^(%d+) (%d+)$')
  return tonumber(answer) or 0, tonumber(pace) or 0
end

-- Sets a field of such a HASH, or drops it where there is no text. Of more origins than ORIGINS
-- those go that end first. All of it is kept for IDLE after the latest end.
local function save_strain(key, field, text, until_us, now)
  if not text then
    redis.call('HDEL', key, field)
    return
  end
  redis.call('HSET', key, field, text)
  local found, count, first, first_at = redis.call('HGETALL', key), 0, nil, 0
  for i = 1, #found, 2 do
    local at = tonumber(match(found[i + 1], '^(%d+) %d+ %d+$'))
    if at then
      count = count + 1
      if not first or at < first_at or at == first_at and found[i] < first then
        first, first_at = found[i], at
      end
    end
  end
  if count > ORIGINS then redis.call('HDEL', key, first) end
  local seconds = ceil((max(now, until_us) - now + IDLE) / 1000000)
  redis.call('EXPIRE', key, max(seconds, redis.call('TTL', key)))
end

-- How many permits the worker may still be using that says it has so many running.
local function kept_by(host, running, concurrency, now)
  if not host.held then return min(running, concurrency) end
  if now - host.granted_at < GRACE then return host.held end
  return min(host.held, running)
end

-- Writes the host, the tenant, and the worker's permits until their end, or that it has none; and
-- how long it is all to be remembered.
local function save_host(host, now, tenant, permits, granted_at, until_us)
  local values = {'*', format(
    '%.0f %.0f %.0f %.0f %.0f %.0f %.0f%s',
    host.last, host.gap, host.until_us, host.overload, host.answer, host.pace, host.slow, host.counts
  )}
  local due = max(now, host.until_us, host.last + host.gap)
  for name, one in pairs(host.tenants) do
    due = max(due, one.last + one.interval)
    if name == tenant or one.changed then
      values[#values + 1] = name
      values[#values + 1] = format(
        '%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f', one.last, one.interval, one.share_at,
        one.unmet_at, one.want, one.concurrency, one.served_at, one.share
      )
    end
  end
  if until_us then
    values[#values + 1] = host.member
    values[#values + 1] = format('%.0f %.0f %.0f', permits, granted_at, until_us)
  elseif host.held then
    redis.call('HDEL', KEYS[1], host.member)
  end
  redis.call('HSET', KEYS[1], unpack(values))
  -- Of a host that nothing slows there is nothing to know after its counts: a tenant may make up as
  -- many as it likes.
  local idle = host.pace == 0 and host.overload == 0 and FLEETING or IDLE
  redis.call('EXPIRE', KEYS[1], ceil((due - now + idle) / 1000000))
end
