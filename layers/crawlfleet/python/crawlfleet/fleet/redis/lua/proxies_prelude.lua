-- Workers tell one another of proxies with their heartbeats (SPEC.md C9).
-- proxies       HASH  'pool key' -> 'place answered failed spent_ms counted_ms until_ms cool_downs
--                     tried_by try_until_ms fault seen_by'; '-' is nothing
-- proxies_seen  ZSET  'pool key' -> epoch ms of its last report, or of the end of its cool-down
-- proxies_news  ZSET  'pool key' -> a number that rises with each change that workers have to know
-- proxy_pools   HASH  pool -> 'size away ms'
--
-- A proxy that fails is away until `until_ms`. Then it is still away, but for one worker that asked
-- for a try: who asks meanwhile is told when that try is over. Whoever has succeeded says so, whoever
-- has failed says for how long it is away now. A report that comes twice has no second effect, but
-- that it is counted twice.
local PROXIES_KEPT_MS, PROXIES_MOST, PROXIES_SWEPT, NEWS_MOST = 7200000, 20000, 100, 500

local function words_of(text)
  local found = {}
  for word in string.gmatch(text or '', '%S+') do found[#found + 1] = word end
  return found
end

local function hear_proxy(keys, worker, now, word, try_ms, half_life_ms)
  local pool, key, verb = word[1], word[2], word[3]
  local field = pool .. ' ' .. key
  local known = words_of(redis.call('HGET', keys.proxies, field))
  local function number(i) return tonumber(known[i]) or 0 end
  local fades = 0.5 ^ (math.max(0, now - number(5)) / half_life_ms)
  local until_ms, cool_downs, tried_by, try_until = number(6), number(7), known[8] or '-', number(9)
  local fault, seen_by, was = known[10] or '-', known[11] or '-', until_ms
  if verb == 'away' then
    until_ms = math.max(until_ms, now + word[8])
    cool_downs = math.max(cool_downs, tonumber(word[9]))
    tried_by, try_until, fault, seen_by = '-', 0, word[10], worker
  elseif verb == 'well' then
    until_ms, cool_downs, tried_by, try_until = 0, 0, '-', 0
  elseif verb == 'try' and until_ms > 0 and now >= until_ms
    and (tried_by == worker or now >= try_until) then
    tried_by, try_until = worker, now + try_ms
  end
  local counts = {}
  for i = 1, 3 do counts[i] = string.format('%.1f', number(i + 1) * fades + word[i + 4]) end
  redis.call('HSET', keys.proxies, field, table.concat({
    word[4], counts[1], counts[2], counts[3], string.format('%.0f', now),
    string.format('%.0f', until_ms), cool_downs, tried_by, string.format('%.0f', try_until),
    fault, seen_by,
  }, ' '))
  redis.call('ZADD', keys.seen, math.max(now, until_ms), field)
  if until_ms ~= was then
    local top = redis.call('ZREVRANGE', keys.news, 0, 0, 'WITHSCORES')
    redis.call('ZADD', keys.news, math.max(now, (tonumber(top[2]) or 0) + 1), field)
  end
  if verb ~= 'try' then return end
  local wait = math.max(0, try_until - now)
  if until_ms == 0 then return {field, 0, 0, 0, 0} end
  if now < until_ms then return {field, until_ms - now, cool_downs, 0, 0} end
  if tried_by == worker then return {field, 0, cool_downs, wait, 0} end
  return {field, 0, cool_downs, 0, wait}
end

-- Forgets what was reported too long ago, or is more than is kept.
local function sweep_proxies(keys, now)
  local old = redis.call('ZRANGEBYSCORE', keys.seen, '-inf', now - PROXIES_KEPT_MS,
    'LIMIT', 0, PROXIES_SWEPT)
  if #old == 0 and redis.call('ZCARD', keys.seen) > PROXIES_MOST then
    old = redis.call('ZRANGE', keys.seen, 0, PROXIES_SWEPT - 1)
  end
  apply('HDEL', keys.proxies, old)
  apply('ZREM', keys.seen, old)
  apply('ZREM', keys.news, old)
  for _, key in pairs(keys) do redis.call('PEXPIRE', key, 2 * PROXIES_KEPT_MS) end
end

-- Takes a worker's reports, and returns {what it has seen then, {'pool key', ms for which it is away,
-- cool-downs, ms for which it has a try, ms after which to ask again} of each that is news}.
-- A report is 'pool key verb place answered failed spent_ms cool_down_ms cool_downs fault', or
-- 'pool - size SIZE AWAY'.
local function exchange_proxies(keys, worker, now, seen, try_ms, half_life_ms, reports)
  worker = string.gsub(worker, '%s', '_')
  local answers = {}
  for _, report in ipairs(reports) do
    local word = words_of(report)
    if word[3] == 'size' then
      redis.call('HSET', keys.pools, word[1], word[4] .. ' ' .. word[5] .. ' ' .. now)
    else
      answers[#answers + 1] = hear_proxy(keys, worker, now, word, try_ms, half_life_ms)
    end
  end
  if #reports > 0 then sweep_proxies(keys, now) end

  local top = redis.call('ZREVRANGE', keys.news, 0, 0, 'WITHSCORES')
  local latest, news = tonumber(top[2]) or 0, {}
  -- Redis has lost what it had told.
  if seen > latest then seen = 0 end
  if seen < latest then
    news = redis.call('ZRANGEBYSCORE', keys.news, string.format('(%.0f', seen), '+inf',
      'WITHSCORES', 'LIMIT', 0, NEWS_MOST)
  end
  local told = {}
  for i = 1, #news, 2 do
    local known = words_of(redis.call('HGET', keys.proxies, news[i]))
    seen = tonumber(news[i + 1])
    told[#told + 1] = {
      news[i], math.max(0, (tonumber(known[6]) or 0) - now), tonumber(known[7]) or 0, 0, 0,
    }
  end
  -- Tries last: of a proxy of which there is news too, they say more.
  for _, answer in ipairs(answers) do told[#told + 1] = answer end
  return {seen, told}
end
