-- crawl_dead: move a leased request that cannot be done to the dead ones, with the reason.
-- KEYS[1] leases    ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[2] requests  HASH  id -> score and request
-- KEYS[3] dead      LIST  reason and request on two lines, newest first
-- KEYS[4] deaths    HASH  id -> how many processes have ended while they had it
-- KEYS[5] counts    HASH  submitted, done, dead, cancelled
-- ARGV[1] process
-- ARGV[2] id
-- ARGV[3] reason
-- ARGV[4] bound     how many are kept
-- reply   1 if the process had leased it
even_when_full(KEYS[1])
if redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. ARGV[2]) == 0 then return 0 end
local stored = redis.call('HGET', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[2])
redis.call('HINCRBY', KEYS[5], 'dead', 1)
if stored then
  redis.call('LPUSH', KEYS[3], ARGV[3] .. '\n' .. string.sub(stored, string.find(stored, ' ', 1, true) + 1))
  redis.call('LTRIM', KEYS[3], 0, ARGV[4] - 1)
end
return 1
