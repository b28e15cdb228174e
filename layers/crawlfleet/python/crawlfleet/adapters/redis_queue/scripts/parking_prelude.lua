-- Stands after the prelude before the scripts that park entries (policy.parking does the same).

-- Above every ts: the least of nothing.
local NO_TS = 9007199254740992

-- What the HASH of a lane says of a host's list, or, as far as that was lost, what its length says.
local function waiting_for(parked, low, host, length)
  local count, old, of_old, of_new =
    string.match(redis.call('HGET', parked, host) or '', '^(%d+) (%d+) (%-?%d+) (%-?%d+)$')
  local found = {recorded = tonumber(count) or 0, count = length}
  found.old = math.min(tonumber(old) or length, length)
  found.least_of_old = tonumber(of_old or redis.call('ZSCORE', low, host) or NO_TS)
  found.least_of_new = tonumber(of_new or NO_TS)
  return found
end

-- Writes that down, of a list without entries nothing, and what all lists together hold.
local function note_waiting(parked, low, host, waiting)
  if waiting.count > 0 then
    redis.call('HSET', parked, host, string.format(
      '%.0f %.0f %.0f %.0f', waiting.count, waiting.old, waiting.least_of_old, waiting.least_of_new
    ))
    local least = math.min(waiting.least_of_old, waiting.least_of_new)
    redis.call('ZADD', low, string.format('%.0f', least), host)
  else
    redis.call('HDEL', parked, host)
    redis.call('ZREM', low, host)
  end
  local all = redis.call('HINCRBY', parked, '*', waiting.count - waiting.recorded)
  if all <= 0 and redis.call('HLEN', parked) == 1 then redis.call('UNLINK', parked) end
end
