-- lease: moves a batch of the queue to a token's lease, due retries and ended leases among it.
-- KEYS[1] leases    ZSET    token:entry -> epoch ms at which the lease ends
-- KEYS[2] delayed   ZSET    entry -> epoch ms at which it is due
-- KEYS[3] ticks     STRING  'time oldest time oldest ...' of the last ticks, epoch ms
-- KEYS[4..14]       LIST    entries of priority 0 to 10, served from the tail
-- ARGV[1] token     whose lease this becomes
-- ARGV[2] count     how many entries at most
-- ARGV[3] now       epoch ms
-- ARGV[4] until     epoch ms at which this lease ends
-- ARGV[5] interval  of the ticks, ms
-- ARGV[6] beta      beyond which part of the oldest one's age a priority grows
-- ARGV[7] cap       logarithm to base 2 of what it grows to at most
-- ARGV[8] kept      how many ticks are remembered
-- ARGV[9] clock     epoch ms, or empty for the server's: what the ticks go by
-- reply   the leased entries, one JSON object a line
--
-- Entries may repeat. What the token holds already is not handed to it a second time, so the batch
-- is filled up again; SPARE bounds how many pops that may cost.
local SPARE = 1000
-- Entries of a list that are looked at together.
local AHEAD = 32
local FIRST = 4
even_when_full(KEYS[1])
local token, wanted, now, deadline = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local taken = {}

local function take(entry)
  if string.byte(entry) ~= 123 or string.find(entry, '\n', 1, true) then
    -- Pushed by something else than enqueue: white space is repaired, what is no object is dropped.
    entry = string.match(string.gsub(entry, '%s+', ' '), '^ ?({.*})') or ''
    if entry == '' then return end
  end
  if redis.call('ZADD', KEYS[1], deadline, token .. ':' .. entry) == 1 then
    taken[#taken + 1] = entry
  end
end

-- 1. What is due, and what a worker did not finish in time, is served next of its priority: the
-- first one that is due first, and what is due before what has ended.
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, wanted)
local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, wanted - #due)
if #due + #ended > 0 then
  apply('ZREM', KEYS[2], due)
  apply('ZREM', KEYS[1], ended)
  local back = {}
  for i = #ended, 1, -1 do
    back[#back + 1] = string.sub(ended[i], string.find(ended[i], ':{', 1, true) + 1)
  end
  for i = #due, 1, -1 do back[#back + 1] = due[i] end
  push('RPUSH', FIRST, back)
end

-- 2. Pop what waits, always of the priority whose oldest entry weighs most.

-- Of each list that has any: its key, its entries as far as they were read, how many are popped.
local waiting, lists, oldest = {}, 0, nil
for level = 0, LEVELS - 1 do
  local key = KEYS[FIRST + level]
  local head = redis.call('LINDEX', key, -1)
  if head then
    waiting[level] = {key = key, head = head, created = created_of(head), popped = 0}
    lists = lists + 1
    local created = waiting[level].created
    if created and not (oldest and oldest <= created) then oldest = created end
  end
end
if lists == 0 then return table.concat(taken, '\n') end

local times, oldests = read_ticks(KEYS[3])
local beta, cap = tonumber(ARGV[6]), tonumber(ARGV[7])
if oldest then
  local clock = tonumber(ARGV[9]) or server_ms()
  settle(KEYS[3], times, oldests, clock, oldest, tonumber(ARGV[5]), tonumber(ARGV[8]))
end

local pops = wanted + SPARE
if lists == 1 then
  local _, only = next(waiting)
  while #taken < wanted and pops > 0 do
    local popped = redis.call('RPOP', only.key, math.min(wanted - #taken, pops))
    if not popped then break end
    pops = pops - #popped
    for _, entry in ipairs(popped) do take(entry) end
  end
  return table.concat(taken, '\n')
end

-- The list's next entry, popped or not; nil behind the last one.
local function advance(list)
  list.popped = list.popped + 1
  if not list.read or list.at == 1 then
    list.read = redis.call('LRANGE', list.key, -list.popped - AHEAD, -list.popped - 1)
    list.at = #list.read + 1
  end
  list.at = list.at - 1
  return list.read[list.at]
end

for level, list in pairs(waiting) do weigh(level, list, times, oldests, beta, cap) end
while #taken < wanted and pops > 0 do
  local best, chosen = first_of(waiting)
  if not best then break end
  pops = pops - 1
  take(best.head)
  best.head = advance(best)
  if best.head then
    local created = created_of(best.head)
    if created ~= best.created then
      best.created = created
      weigh(chosen, best, times, oldests, beta, cap)
    end
  end
end
for _, list in pairs(waiting) do
  if list.popped > 0 then redis.call('LTRIM', list.key, 0, -list.popped - 1) end
end
return table.concat(taken, '\n')
