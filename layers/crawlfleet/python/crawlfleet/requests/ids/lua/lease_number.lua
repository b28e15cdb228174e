-- lease_number: the worker number that has been free for longest goes to a holder, under a new fence.
-- KEYS[1] numbers     ZSET    worker number -> epoch ms at which its lease ends
-- KEYS[2] fences      HASH    worker number -> fence of its latest lease
-- KEYS[3] marks       HASH    worker number -> mark; past 2^53, so never a Lua number
-- KEYS[4] fence_count STRING  leases given so far
-- ARGV[1] first       the lowest number to give
-- ARGV[2] end         the number after the highest
-- ARGV[3] now         epoch ms
-- ARGV[4] until       epoch ms at which the lease ends
-- ARGV[5] nonce       no other lease has it, also when the count was lost with Redis
-- ARGV[6] mark        for a number that has none
-- reply   {number, fence, mark}, or nil when all are leased
local first, past = tonumber(ARGV[1]), tonumber(ARGV[2])

-- The set may hold numbers of another range, of a version of ours that runs beside this one.
local function free_for_longest()
  local from = 0
  while true do
    local number = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[3], 'LIMIT', from, 1)[1]
    if not number or (tonumber(number) >= first and tonumber(number) < past) then return number end
    from = from + 1
  end
end

even_when_full(KEYS[1])
local number = free_for_longest()
if not number then
  -- The first lease of all, or of a wider range: numbers that were never leased join.
  for unused = first, past - 1 do redis.call('ZADD', KEYS[1], 'NX', 0, unused) end
  number = free_for_longest()
end
if not number then return false end

local fence = redis.call('INCR', KEYS[4]) .. ':' .. ARGV[5]
redis.call('ZADD', KEYS[1], ARGV[4], number)
redis.call('HSET', KEYS[2], number, fence)
redis.call('HSETNX', KEYS[3], number, ARGV[6])
return {number, fence, redis.call('HGET', KEYS[3], number)}
