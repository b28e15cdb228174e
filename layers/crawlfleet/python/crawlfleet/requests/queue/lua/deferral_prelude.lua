-- Stands after the prelude before the scripts that defer entries (requests.queue.ageing).

-- Above every ts: the least of nothing.
local NO_TS = 9007199254740992

-- By what a host's list of a priority is known; that of the usual one by the host alone.
local function places_of(host)
  local found = {}
  for level = 0, 10 do found[level] = level == 5 and host or host .. ' ' .. level end
  return found
end

-- All that waits for a host is looked at when the latest of it is.
local function look_together(parked_due, due, host)
  local update = {}
  for _, place in pairs(places_of(host)) do
    update[#update + 1] = due
    update[#update + 1] = place
  end
  redis.call('ZADD', parked_due, 'XX', unpack(update))
end

-- What the HASH of a queue says of a place's list, or, as far as that was lost, what its length says.
local function waiting_for(parked, low, place, length)
  local count, old, of_old, of_new =
    string.match(redis.call('HGET', parked, place) or '', '^(%d+) (%d+) (%-?%d+) (%-?%d+)$')
  local found = {recorded = tonumber(count) or 0, count = length}
  found.old = math.min(tonumber(old) or length, length)
  found.least_of_old = tonumber(of_old or redis.call('ZSCORE', low, place) or NO_TS)
  found.least_of_new = tonumber(of_new or NO_TS)
  return found
end

-- Beside its places a queue's HASH counts the entries of all, and of the lists that wait for quotas
-- (requests.queue.ageing) the entries and the lists.
local COUNTS = {'*', '*parked', '*accounts'}
local function is_parked(place) return string.sub(place, 1, 8) == 'quota://' end

local function counts_in(parked)
  local found = 0
  for _, count in ipairs(redis.call('HMGET', parked, unpack(COUNTS))) do
    if count then found = found + 1 end
  end
  return found
end

local function count_parked(parked, entries, lists)
  redis.call('HINCRBY', parked, '*parked', entries)
  if redis.call('HINCRBY', parked, '*accounts', lists) <= 0 then
    redis.call('HDEL', parked, '*parked', '*accounts')
  end
end

-- Writes that down, of a list without entries nothing, and what all lists together hold.
local function note_waiting(parked, low, place, waiting)
  if waiting.count > 0 then
    redis.call('HSET', parked, place, string.format(
      '%.0f %.0f %.0f %.0f', waiting.count, waiting.old, waiting.least_of_old, waiting.least_of_new
    ))
    local least = math.min(waiting.least_of_old, waiting.least_of_new)
    redis.call('ZADD', low, string.format('%.0f', least), place)
  else
    redis.call('HDEL', parked, place)
    redis.call('ZREM', low, place)
  end
  if is_parked(place) then
    local lists = (waiting.count > 0 and 1 or 0) - (waiting.recorded > 0 and 1 or 0)
    count_parked(parked, waiting.count - waiting.recorded, lists)
  end
  local all = redis.call('HINCRBY', parked, '*', waiting.count - waiting.recorded)
  if all <= 0 and redis.call('HLEN', parked) == 1 then redis.call('UNLINK', parked) end
end
