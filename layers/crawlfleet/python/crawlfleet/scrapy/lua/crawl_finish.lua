-- crawl_finish: remove requests that a process has finished, as far as it still leases them.
-- KEYS[1] leases    ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[2] requests  HASH  id -> score and request
-- KEYS[3] deaths    HASH  id -> how many processes have ended while they had it
-- KEYS[4] counts    HASH  submitted, done, dead, cancelled
-- ARGV[1] process
-- ARGV[2] ids       one a line
-- reply   how many it leased
even_when_full(KEYS[1])
local held = {}
for _, id in ipairs(lines(ARGV[2])) do
  if redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. id) == 1 then held[#held + 1] = id end
end
apply('HDEL', KEYS[2], held)
apply('HDEL', KEYS[3], held)
if #held > 0 then redis.call('HINCRBY', KEYS[4], 'done', #held) end
return #held
