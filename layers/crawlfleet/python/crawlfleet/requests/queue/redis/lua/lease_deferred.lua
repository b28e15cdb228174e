-- lease_deferred: moves entries that wait for hosts to a token's lease, of each host by priority and age.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[3] parked_due  ZSET  place -> epoch ms at which it is looked at
-- KEYS[4] parked_low  ZSET  place -> least ts of its list
-- KEYS[5..]           LIST  entries of priority 0 to 10 of each host, served from the head
-- ARGV[1] token       whose lease this becomes
-- ARGV[2] until       epoch ms at which the lease ends
-- ARGV[3] interval    of the ticks, ms
-- ARGV[4] beta        beyond which part of the oldest one's age a priority grows
-- ARGV[5] cap         logarithm to base 2 of what it grows to at most
-- ARGV[6] kept        how many ticks are remembered
-- ARGV[7] clock       epoch ms, or empty for the server's: what the ticks go by
-- ARGV[8..]           host, how many, epoch ms at which it is looked at again; host...
-- reply   of each host the leased entries, one JSON object a line
--
-- What the token holds already is not handed to it a second time; SPARE bounds what that may cost.
-- The ticks of a host are made up from its oldest head, see requests.queue.ageing.
local SPARE = 1000
local FIRST, FIRST_HOST = 5, 8
even_when_full(KEYS[1])
local reply, spare = {}, SPARE
local clock = tonumber(ARGV[7]) or server_ms()
local beta, cap = tonumber(ARGV[4]), tonumber(ARGV[5])

-- The host's lists that hold anything, or of which the figures say so; and how many hold anything.
local function lists_of(host, first)
  local found, names, filled = {}, places_of(host), 0
  local figures = redis.call('HMGET', KEYS[2], unpack(names, 0, LEVELS - 1))
  for level = 0, LEVELS - 1 do
    local key = KEYS[first + level]
    local length = redis.call('LLEN', key)
    if length > 0 then filled = filled + 1 end
    if length > 0 or figures[level + 1] then
      local waiting = waiting_for(KEYS[2], KEYS[4], names[level], length)
      found[level] = {key = key, place = names[level], waiting = waiting, popped = 0}
    end
  end
  return found, filled
end

local function look_at(list)
  list.head = redis.call('LINDEX', list.key, 0)
  list.created = list.head and created_of(list.head)
end

-- The one list that holds anything; or of several the one whose head weighs most.
local function chooser(lists, filled)
  if filled <= 1 then
    for level, list in pairs(lists) do
      if list.waiting.count > 0 then return function() return list, level end end
    end
    return function() end
  end
  local oldest
  for _, list in pairs(lists) do
    look_at(list)
    if list.created and not (oldest and oldest <= list.created) then oldest = list.created end
  end
  local times, oldests = {}, {}
  if oldest then
    catch_up(times, oldests, clock, oldest, tonumber(ARGV[3]), tonumber(ARGV[6]))
  end
  return function()
    for level, list in pairs(lists) do
      if list.popped ~= list.weighed then
        if list.popped > 0 then look_at(list) end
        if list.head then weigh(level, list, times, oldests, beta, cap) end
        list.weighed = list.popped
      end
    end
    return first_of(lists)
  end, true
end

for at = FIRST_HOST, #ARGV, 3 do
  local host, wanted, again = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local lists, filled = lists_of(host, FIRST + (at - FIRST_HOST) / 3 * LEVELS)
  local choose, one_by_one = chooser(lists, filled)
  local taken, popped = {}, 0
  while #taken < wanted and popped < wanted + spare do
    local list = choose()
    if not list then break end
    local count = one_by_one and 1 or math.min(wanted - #taken, wanted + spare - popped)
    local found = redis.call('LPOP', list.key, count)
    if not found then break end
    popped, list.popped = popped + #found, list.popped + #found
    for _, entry in ipairs(found) do
      if redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1] .. ':' .. entry) == 1 then
        taken[#taken + 1] = entry
      end
    end
  end
  spare = spare - (popped - #taken)
  for _, list in pairs(lists) do
    local waiting = list.waiting
    waiting.count, waiting.old = waiting.count - list.popped, waiting.old - list.popped
    if waiting.count > 0 and waiting.old <= 0 then
      waiting.old, waiting.least_of_old = waiting.count, waiting.least_of_new
      waiting.least_of_new = NO_TS
    end
    note_waiting(KEYS[2], KEYS[4], list.place, waiting)
    if waiting.count > 0 then
      redis.call('ZADD', KEYS[3], again, list.place)
    end
  end
  local gone = {}
  for level, place in pairs(places_of(host)) do
    if not lists[level] or lists[level].waiting.count == 0 then gone[#gone + 1] = place end
  end
  apply('ZREM', KEYS[3], gone)
  reply[#reply + 1] = table.concat(taken, '\n')
end
return reply
