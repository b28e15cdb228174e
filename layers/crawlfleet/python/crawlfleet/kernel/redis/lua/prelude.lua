-- Stands before every script of this folder (connection.py joins them).
-- A batch of entries travels as one argument: one JSON object a line. No script reads the JSON:
-- ids pass 2^53, which a Lua number does not hold.

-- Counts of seconds older than this are dropped; the rates look back 60 s.
local KEPT_SECONDS = 90
-- A queue's counts disappear when nothing was counted for this long. Statistics only.
local COUNTS_TTL_SECONDS = 120
-- unpack() fails at about 8,000 values.
local CHUNK = 4000

local function lines(text)
  local found, from = {}, 1
  while true do
    local to = string.find(text, '\n', from, true)
    local line = string.sub(text, from, (to or 0) - 1)
    if line ~= '' then found[#found + 1] = line end
    if not to then return found end
    from = to + 1
  end
end

-- The members of the lease set that a token's entries are.
local function held_by(token, entries)
  local members = {}
  for i = 1, #entries do members[i] = token .. ':' .. entries[i] end
  return members
end

-- One variadic command over any number of values; the sum of its replies.
local function apply(command, key, values)
  local sum = 0
  for first = 1, #values, CHUNK do
    local last = math.min(first + CHUNK - 1, #values)
    sum = sum + redis.call(command, key, unpack(values, first, last))
  end
  return sum
end

-- A full Redis refuses a script whose first write may need memory, and none after that. What ends or
-- keeps work must go on then: PERSIST needs none, and has no effect on keys that never carry a TTL.
local function even_when_full(key)
  redis.call('PERSIST', key)
end

-- Adds to the HASH of counts by epoch second; the first count of a second sweeps the old ones.
local function count(key, second, amount)
  if amount == 0 then return end
  if redis.call('HINCRBY', key, second, amount) > amount then return end
  local oldest, gone = tonumber(second) - KEPT_SECONDS, {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if tonumber(field) < oldest then gone[#gone + 1] = field end
  end
  apply('HDEL', key, gone)
  redis.call('EXPIRE', key, COUNTS_TTL_SECONDS)
end

-- The server's clock in epoch us and ms: one clock for all, whatever theirs say.
local function server_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function server_ms()
  return math.floor(server_us() / 1000)
end

-- A section of the server's account of itself (3 us), and a line of it, or nil. Read by a script, on
-- a cluster it is that of the node which holds the script's keys.
local function account(section)
  return redis.call('INFO', section)
end

local function fact_of(account_read, name)
  return string.match(account_read, '\n' .. name .. ':([^\r\n]+)')
end

-- Notes in the HASH that the fleet is watched at this ms of the server, and returns since when it has
-- been without a lapse. A clock that was set back is a lapse too.
local function watched_since(key, now, lapse)
  local found = redis.call('HMGET', key, 'since', 'seen')
  local since, seen = tonumber(found[1]), tonumber(found[2])
  if not since or not seen or since > now or seen > now or now - seen > tonumber(lapse) then
    since = now
  end
  redis.call('HSET', key, 'since', since, 'seen', now)
  return since
end

-- Whether the filling of that nonce is under way.
local function filling(key, nonce)
  local found = redis.call('GET', key) or ''
  return string.match(found, '^%-?%d+:(.*)$') == nonce
end


-- The id of one more request of a Scrapy crawl: of equal priority the least is served first. It is
-- above all ids of before, also where Redis has lost what it had given.
local function next_id(key, order)
  local number, least = redis.call('INCR', key), server_ms() * 100
  if number < least then
    number = least
    redis.call('SET', key, string.format('%.0f', number))
  end
  return string.format('%015.0f', order == 'newest' and 1e15 - number or number)
end

-- Takes up to so many start URLs out of a list, a set, or a sorted set of which the highest is first;
-- nil if it is neither.
local function take_starts(key, number)
  local kind, taken = redis.call('TYPE', key).ok, {}
  if kind == 'list' then return redis.call('LPOP', key, number) or {} end
  if kind == 'set' then return redis.call('SPOP', key, number) end
  if kind == 'zset' then
    local found = redis.call('ZPOPMAX', key, number)
    for i = 1, #found, 2 do taken[#taken + 1] = found[i] end
    return taken
  end
  if kind == 'none' then return taken end
end

local NO_STARTS = 'WRONGTYPE start URLs are a list, a set or a sorted set'

-- Start URLs become entries of a crawl's queue; returns each one's id and itself.
local function enter_starts(queue, requests, serial, order, starts)
  local entered = {}
  for _, given in ipairs(starts) do
    local id = next_id(serial, order)
    entered[#entered + 1], entered[#entered + 2] = id, given
    redis.call('HSET', requests, id, '0 s' .. given)
    redis.call('ZADD', queue, 0, id)
  end
  return entered
end
