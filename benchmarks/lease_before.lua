-- lease: moves a batch to a token's lease: due retries, then ended leases, then the queue.
-- KEYS[1] queue    LIST  entries as JSON, served from the tail
-- KEYS[2] delayed  ZSET  entry -> epoch ms at which it is due
-- KEYS[3] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- ARGV[1] token    whose lease this becomes
-- ARGV[2] count    how many entries at most
-- ARGV[3] now      epoch ms
-- ARGV[4] until    epoch ms at which this lease ends
-- reply   the leased entries, one JSON object a line
--
-- Entries may repeat. What the token holds already is not handed to it a second time, so the batch
-- is filled up again; SPARE bounds how many pops that may cost.
local SPARE = 1000
even_when_full(KEYS[3])
local token, wanted, now, deadline = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local taken = {}

local function take(entry)
  if string.byte(entry) ~= 123 or string.find(entry, '\n', 1, true) then
    -- Pushed by something else than enqueue: white space is repaired, what is no object is dropped.
    entry = string.match(string.gsub(entry, '%s+', ' '), '^ ?({.*})') or ''
    if entry == '' then return end
  end
  if redis.call('ZADD', KEYS[3], deadline, token .. ':' .. entry) == 1 then
    taken[#taken + 1] = entry
  end
end

-- 1. promote what is due
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, wanted)
apply('ZREM', KEYS[2], due)
for _, entry in ipairs(due) do take(entry) end

-- 2. reclaim what a worker did not finish in time
local ended = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, wanted - #taken)
apply('ZREM', KEYS[3], ended)
for _, member in ipairs(ended) do
  take(string.sub(member, string.find(member, ':{', 1, true) + 1))
end

-- 3. pop what waits
local pops = wanted + SPARE
while #taken < wanted and pops > 0 do
  local popped = redis.call('RPOP', KEYS[1], math.min(wanted - #taken, pops))
  if not popped then break end
  pops = pops - #popped
  for _, entry in ipairs(popped) do take(entry) end
end

return table.concat(taken, '\n')
