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
for number = first, past - 1 do redis.call('ZADD', KEYS[1], 'NX', 0, number) end
for _, number in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])) do
  if tonumber(number) >= first and tonumber(number) < past then
    local fence = redis.call('INCR', KEYS[4]) .. ':' .. ARGV[5]
    redis.call('ZADD', KEYS[1], ARGV[4], number)
    redis.call('HSET', KEYS[2], number, fence)
    redis.call('HSETNX', KEYS[3], number, ARGV[6])
    return {number, fence, redis.call('HGET', KEYS[3], number)}
  end
end
return false
