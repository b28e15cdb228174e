-- Stands after the prelude before every script about a host (policy.turns and policy.strain do the
-- same in Python, number for number). All times are whole us, moments those of the epoch: below
-- 2^53, so a Lua number holds them. It does not print them: full() does.

local HORIZON, PERMIT, DEMAND = 2000000, 30000000, 10000000
local GRACE, IDLE = 1000000, 3600000000
-- Workers whose permits have ended and that one call looks at.
local SWEEP = 1000

local function full(...)
  local values = {...}
  for i = 1, #values do values[i] = string.format('%.0f', values[i]) end
  return table.concat(values, ' ')
end

local function numbers(text)
  local found = {}
  for value in string.gmatch(text or '', '%S+') do found[#found + 1] = tonumber(value) end
  return found
end

-- The host under KEYS[1], permits that have ended taken back: host.tenants by name, and host.count
-- of them. What a clock set back has made too late is brought back into the horizon.
local function load_host(now, asking)
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', full(now), 'LIMIT', 0, SWEEP)
  local returned = {}
  for _, member in ipairs(ended) do
    local tenant = string.match(member, ' (%S*)$')
    local held = numbers(redis.call('HGET', KEYS[3], member))[1] or 0
    returned[tenant] = (returned[tenant] or 0) + held
  end
  apply('ZREM', KEYS[2], ended)
  apply('HDEL', KEYS[3], ended)

  local host = {last = 0, gap = 0, until_us = 0, strain = 0, answer = 0, pace = 0, slow = 0}
  host.tenants, host.count = {}, 0
  local found, over = redis.call('HGETALL', KEYS[1]), {}
  for i = 1, #found, 2 do
    local name, v = found[i], numbers(found[i + 1])
    if name == '*' then
      host.last, host.gap = math.min(v[1], now + HORIZON), v[2]
      host.until_us, host.strain, host.answer, host.pace, host.slow = v[3], v[4], v[5], v[6], v[7]
    else
      local one = {last = math.min(v[1], now + HORIZON), interval = v[2], share_at = v[3]}
      one.unmet_at, one.want, one.permits = v[4], v[5], v[6]
      one.concurrency, one.served_at = v[7], v[8]
      if returned[name] then
        one.permits = math.max(0, one.permits - returned[name])
        one.changed = true
      end
      if name ~= asking and one.permits == 0 and one.last + one.interval <= now
        and one.share_at <= now and one.unmet_at + DEMAND <= now then
        over[#over + 1] = name
      else
        host.tenants[name] = one
        host.count = host.count + 1
      end
    end
  end
  apply('HDEL', KEYS[1], over)
  return host
end

-- How many permits a worker may still be using that says it has so many running; and its permits,
-- nil where none are known, with the moment at which it last got turns.
local function keeps(member, running, concurrency, now)
  local before = numbers(redis.call('HGET', KEYS[3], member))
  if not before[1] then return math.min(running, concurrency), nil, 0 end
  if now - before[2] < GRACE then return before[1], before[1], before[2] end
  return math.min(before[1], running), before[1], before[2]
end

local function hold(member, count, granted_at, until_us)
  if until_us then
    redis.call('ZADD', KEYS[2], full(until_us), member)
    redis.call('HSET', KEYS[3], member, full(count, granted_at))
  else
    redis.call('ZREM', KEYS[2], member)
    redis.call('HDEL', KEYS[3], member)
  end
end

-- Writes what may have changed, and how long it is all to be remembered.
local function save_host(host, now)
  redis.call('HSET', KEYS[1], '*', full(
    host.last, host.gap, host.until_us, host.strain, host.answer, host.pace, host.slow
  ))
  local due = math.max(now, host.until_us, host.last + host.gap)
  for name, one in pairs(host.tenants) do
    due = math.max(due, one.last + one.interval)
    if one.changed then
      redis.call('HSET', KEYS[1], name, full(
        one.last, one.interval, one.share_at, one.unmet_at, one.want, one.permits, one.concurrency,
        one.served_at
      ))
    end
  end
  local life = math.ceil((due - now + IDLE) / 1000000)
  for i = 1, 3 do redis.call('EXPIRE', KEYS[i], life) end
end
