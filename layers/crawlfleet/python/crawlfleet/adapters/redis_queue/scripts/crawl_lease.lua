-- crawl_lease: moves a batch to a process's lease: what ended leases have left, then the queue.
-- KEYS[1] leases    ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[2] queue     ZSET  id -> minus its priority
-- KEYS[3] requests  HASH  id -> score and request
-- ARGV[1] process
-- ARGV[2] number    of requests at most
-- ARGV[3] term      ms until the lease ends
-- reply   how many were taken over from ended leases; then id and request of each
even_when_full(KEYS[1])
local now = server_ms()
local deadline = string.format('%.0f', now + ARGV[3])
local wanted, reply = tonumber(ARGV[2]), { 0 }

local function take(id)
  local stored = redis.call('HGET', KEYS[3], id)
  if not stored then return end
  redis.call('ZADD', KEYS[1], deadline, ARGV[1] .. ':' .. id)
  reply[#reply + 1] = id
  reply[#reply + 1] = string.sub(stored, string.find(stored, ' ', 1, true) + 1)
end

local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, wanted)
for _, member in ipairs(ended) do
  redis.call('ZREM', KEYS[1], member)
  take(string.match(member, '[^:]+$'))
end
reply[1] = #ended
if #ended < wanted then
  local popped = redis.call('ZPOPMIN', KEYS[2], wanted - #ended)
  for i = 1, #popped, 2 do take(popped[i]) end
end
return reply
