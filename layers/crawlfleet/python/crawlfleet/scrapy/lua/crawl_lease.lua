-- crawl_lease: lease a batch to a process: requests of ended leases, then of the queue.
-- KEYS[1] leases    ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[2] queue     ZSET  id -> minus its priority
-- KEYS[3] requests  HASH  id -> score and request
-- KEYS[4] deaths    HASH  id -> how many processes have ended while they had it
-- ARGV[1] process
-- ARGV[2] number    of requests at most
-- ARGV[3] term      ms until the lease ends
-- ARGV[4] attempts  a request begun so often is not done; its last attempt is alone
-- ARGV[5] held      requests that the process has
-- reply   how many were taken over from ended leases; then id, deaths and request of each
even_when_full(KEYS[1])
local now = server_ms()
local deadline = string.format('%.0f', now + ARGV[3])
local wanted, last, held = tonumber(ARGV[2]), ARGV[4] - 1, tonumber(ARGV[5])
local reply, taken = { 0 }, 0

local function take(id, deaths)
  local stored = redis.call('HGET', KEYS[3], id)
  if not stored then return end
  redis.call('ZADD', KEYS[1], deadline, ARGV[1] .. ':' .. id)
  reply[#reply + 1] = id
  reply[#reply + 1] = deaths
  reply[#reply + 1] = string.sub(stored, string.find(stored, ' ', 1, true) + 1)
end

-- A request that may be what ends processes is leased alone, and only to a process without others.
local function alone(deaths) return deaths == last end
local function busy() return held + taken > 0 end

local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, wanted)
for _, member in ipairs(ended) do
  local owner, id = string.match(member, '^(.*):([^:]+)$')
  local deaths = tonumber(redis.call('HGET', KEYS[4], id) or 0)
  local mine = owner == ARGV[1]
  if not mine then
    deaths = deaths + 1
    if alone(deaths) and busy() then return reply end
    redis.call('HSET', KEYS[4], id, deaths)
  end
  redis.call('ZREM', KEYS[1], member)
  take(id, deaths)
  reply[1] = reply[1] + 1
  if not mine and alone(deaths) then return reply end
  taken = taken + 1
end
if #ended == wanted then return reply end
if redis.call('HLEN', KEYS[4]) == 0 then
  local popped = redis.call('ZPOPMIN', KEYS[2], wanted - #ended)
  for i = 1, #popped, 2 do take(popped[i], 0) end
  return reply
end
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, wanted - #ended - 1)) do
  local deaths = tonumber(redis.call('HGET', KEYS[4], id) or 0)
  if alone(deaths) and busy() then return reply end
  redis.call('ZREM', KEYS[2], id)
  take(id, deaths)
  if alone(deaths) then return reply end
  taken = taken + 1
end
return reply
