-- Stands after the prelude before the leases: which priority is served next (requests.queue.ageing).
-- tests.fakes.ageing decides alike, operation by operation, to the last bit.

local LEVELS = 11
-- log2(priority + 1), as Python computes it.
local BASE = {
  [0] = 0.0, 1.0, 1.584962500721156, 2.0, 2.321928094887362, 2.584962500721156, 2.807354922057604,
  3.0, 3.169925001442312, 3.321928094887362, 3.4594316186372973,
}

-- When an entry was submitted, whatever its spelling; nil of what is no entry.
local function created_of(entry)
  return tonumber(string.match(entry, '"ts"%s*:%s*(%-?%d+)'))
end

-- The ticks that are noted in a STRING of 'time oldest time oldest ...', oldest first.
local function read_ticks(key)
  local times, oldests = {}, {}
  for time, oldest in string.gmatch(redis.call('GET', key) or '', '(%-?%d+) (%-?%d+)') do
    times[#times + 1], oldests[#oldests + 1] = tonumber(time), tonumber(oldest)
  end
  return times, oldests
end

-- Adds the ticks that have come since; at most so many are kept. tests.fakes.ageing.settle does the same.
local function catch_up(times, oldests, now, oldest, interval, most)
  local changed = false
  while #times > 0 and times[#times] > now do
    times[#times], oldests[#oldests], changed = nil, nil, true
  end
  local last = math.floor(now / interval)
  local first = math.max(math.floor(oldest / interval), last - most) + 1
  if #times > 0 then first = math.max(first, math.floor(times[#times] / interval) + 1) end
  for number = first, last do
    times[#times + 1], oldests[#oldests + 1], changed = number * interval, oldest, true
  end
  while #times > most do
    table.remove(times, 1)
    table.remove(oldests, 1)
  end
  return changed
end

-- The same, and notes them.
local function settle(key, times, oldests, now, oldest, interval, most)
  if not catch_up(times, oldests, now, oldest, interval, most) then return end
  local parts = {}
  for i = 1, #times do parts[i] = string.format('%.0f %.0f', times[i], oldests[i]) end
  if #parts > 0 then
    redis.call('SET', key, table.concat(parts, ' '))
  else
    redis.call('DEL', key)
  end
end

-- The logarithm of what an entry weighs. tests.fakes.ageing.urgency does the same.
local function urgency(level, created, times, oldests, beta, cap)
  local total = BASE[level]
  for i = #times, 1, -1 do
    local age = times[i] - created
    if age <= 0 then break end
    local oldest_age = times[i] - oldests[i]
    local alpha = 1.0
    if oldest_age > age then alpha = age / oldest_age end
    if alpha > beta then
      total = total + alpha
      if total >= cap then return cap end
    end
  end
  return total
end

-- What the head of a list weighs: what is no entry is dropped at once, before all others.
local function weigh(level, list, times, oldests, beta, cap)
  list.weight = list.created and urgency(level, list.created, times, oldests, beta, cap)
    or math.huge
end

local function before(list, other)
  if list.weight ~= other.weight then return list.weight > other.weight end
  return (list.created or 0) < (other.created or 0)
end

-- The list that is served next of those by level that have a head, and its level.
local function first_of(waiting)
  local best, chosen
  for level = LEVELS - 1, 0, -1 do
    local list = waiting[level]
    if list and list.head and (not best or before(list, best)) then best, chosen = list, level end
  end
  return best, chosen
end
