-- crawl_give_back: return leased requests to their places in the queue.
-- KEYS[1] leases    ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[2] queue     ZSET  id -> minus its priority
-- KEYS[3] requests  HASH  id -> score and request
-- ARGV[1] process
-- ARGV[2] ids       one a line
-- reply   how many it leased
even_when_full(KEYS[1])
local back = 0
for _, id in ipairs(lines(ARGV[2])) do
  if redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. id) == 1 then
    local stored = redis.call('HGET', KEYS[3], id)
    if stored then
      redis.call('ZADD', KEYS[2], string.match(stored, '^%S+'), id)
      back = back + 1
    end
  end
end
return back
