-- Common to the scripts of the board (jobs.bidding.redis has the dictionary of keys). All of them
-- have the same keys, and one job's applications where they change those.

local OFFERS, DOCUMENTS, NOTES, QUEUE, INDEX = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local TURNS, PASSES, COUNTS, POOLS = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local WAITS, WINDOWS, AWARDS, WORKERS = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local SERIAL, BEGUN, BEGUN_AT, BIDS = KEYS[14], KEYS[15], KEYS[16], KEYS[17]

-- As jobs.bidding.listing.SCALE.
local SCALE = 1000000
-- Passes of tenants without jobs are removed when there are more of them.
local IDLE_PASSES = 1000

local function whole_text(number) return string.format('%.0f', number) end

local function next_serial() return redis.call('INCR', SERIAL) end

local function tenant_of(job) return string.match(job, '^[^/]+') end

-- The standing of a job, or nil.
local function standing(job)
  local found = redis.call('HGET', OFFERS, job)
  if not found then return nil end
  local state, version, priority, weight, lowered, since, rank, until_ms, number, pool, worker =
    string.match(found, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S*)$')
  return {
    state = state, version = tonumber(version), priority = priority, weight = tonumber(weight),
    lowered = tonumber(lowered), since = since, rank = tonumber(rank),
    until_ms = tonumber(until_ms), number = tonumber(number), pool = pool, worker = worker,
  }
end

local function note_standing(job, one)
  one.version = next_serial()
  redis.call('HSET', OFFERS, job, table.concat({
    one.state, whole_text(one.version), one.priority, whole_text(one.weight),
    whole_text(one.lowered), one.since, whole_text(one.rank), whole_text(one.until_ms),
    whole_text(one.number), one.pool, one.worker,
  }, ' '))
end

-- ---- fair queueing of tenants

local function pass_of(tenant) return tonumber(redis.call('HGET', PASSES, tenant) or 0) end

local function turn_member(pool, pass, tenant)
  return string.format('%s\0%016.0f\0%s', pool, pass, tenant)
end

-- Move a tenant's pass on, or back, in every pool in which it has jobs queued.
local function move(tenant, by)
  local from = pass_of(tenant)
  local to = math.max(0, from + by)
  redis.call('HSET', PASSES, tenant, whole_text(to))
  for _, pool in ipairs(redis.call('HKEYS', POOLS)) do
    if redis.call('ZREM', TURNS, turn_member(pool, from, tenant)) > 0 then
      redis.call('ZADD', TURNS, 0, turn_member(pool, to, tenant))
    end
  end
  return from
end

-- Begin the pass of a tenant with its first job on the board at the pass served now.
local function enter(tenant)
  local now = pass_of('*')
  if pass_of(tenant) < now or redis.call('HEXISTS', PASSES, tenant) == 0 then
    redis.call('HSET', PASSES, tenant, whole_text(now))
  end
  local idle = redis.call('HLEN', PASSES) - tonumber(redis.call('HGET', COUNTS, '*') or 0)
  if idle <= IDLE_PASSES then return end
  local found, gone = redis.call('HGETALL', PASSES), {}
  for i = 1, #found, 2 do
    local other = found[i]
    if tonumber(found[i + 1]) <= now and other ~= '*' and other ~= tenant
      and redis.call('HEXISTS', COUNTS, other) == 0 then
      gone[#gone + 1] = other
    end
  end
  apply('HDEL', PASSES, gone)
end

-- ---- the queue

local function queue_member(job, one)
  return string.format('%s\0%s\0%016.0f\0%s', one.pool, tenant_of(job), one.rank, job)
end

local function put_in_queue(job, one)
  local tenant = tenant_of(job)
  if redis.call('ZADD', QUEUE, 0, queue_member(job, one)) == 0 then return end
  redis.call('HINCRBY', POOLS, one.pool, 1)
  if redis.call('HINCRBY', COUNTS, one.pool .. '\0' .. tenant, 1) == 1 then
    redis.call('ZADD', TURNS, 0, turn_member(one.pool, pass_of(tenant), tenant))
  end
end

local function take_from_queue(job, one)
  local tenant = tenant_of(job)
  if redis.call('ZREM', QUEUE, queue_member(job, one)) == 0 then return end
  local field = one.pool .. '\0' .. tenant
  if redis.call('HINCRBY', COUNTS, field, -1) <= 0 then
    redis.call('HDEL', COUNTS, field)
    redis.call('ZREM', TURNS, turn_member(one.pool, pass_of(tenant), tenant))
  end
  if redis.call('HINCRBY', POOLS, one.pool, -1) <= 0 then redis.call('HDEL', POOLS, one.pool) end
end

-- List members that begin with a prefix, the least first, after one of them.
local function members(key, prefix, after, count)
  return redis.call('ZRANGEBYLEX', key, after and '(' .. after or '[' .. prefix,
    '(' .. prefix .. '\255', 'LIMIT', 0, count)
end

local function rank_of(member) return tonumber(string.match(member, '^%Z+%z%Z+%z(%d+)')) end

-- A rank before all that the tenant has queued, and not behind its own.
local function head_rank(tenant, rank)
  for _, pool in ipairs(redis.call('HKEYS', POOLS)) do
    local first = members(QUEUE, pool .. '\0' .. tenant .. '\0', nil, 1)[1]
    if first then rank = math.min(rank, rank_of(first) - 1) end
  end
  return math.max(0, rank)
end

-- ---- state transitions

-- Free the applicants of a job, but for one worker.
local function free_applicants(job, winner)
  for _, worker in ipairs(redis.call('HKEYS', BIDS)) do
    if worker ~= winner and redis.call('HGET', WORKERS, worker) == job then
      redis.call('HDEL', WORKERS, worker)
    end
  end
  redis.call('UNLINK', BIDS)
end

-- Void an award: the job is at the head of its tenant's queue, whose pass moves back.
local function take_back(job, one, wait_until)
  if redis.call('HGET', WORKERS, one.worker) == job then
    redis.call('HDEL', WORKERS, one.worker)
  end
  redis.call('ZREM', AWARDS, job)
  move(tenant_of(job), -math.floor(SCALE / one.weight))
  one.rank = head_rank(tenant_of(job), one.rank)
  one.state, one.worker, one.number, one.until_ms = 'waiting', '', 0, wait_until
  put_in_queue(job, one)
  redis.call('ZADD', WAITS, wait_until, job)
  note_standing(job, one)
end

-- Remove a job from the board.
local function take_off(job)
  local tenant = tenant_of(job)
  redis.call('HDEL', OFFERS, job)
  redis.call('HDEL', DOCUMENTS, job)
  redis.call('HDEL', NOTES, job)
  redis.call('ZREM', INDEX, job)
  redis.call('ZREM', WAITS, job)
  redis.call('ZREM', WINDOWS, job)
  redis.call('ZREM', AWARDS, job)
  if redis.call('HINCRBY', COUNTS, tenant, -1) <= 0 then
    redis.call('HDEL', COUNTS, tenant)
    if redis.call('HINCRBY', COUNTS, '*', -1) <= 0 then redis.call('HDEL', COUNTS, '*') end
    if pass_of(tenant) <= pass_of('*') then redis.call('HDEL', PASSES, tenant) end
  end
end

-- Forget older acknowledgements, some a call.
local function forget_begun(before)
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', BEGUN_AT, '-inf', before, 'LIMIT', 0, 100)) do
    redis.call('ZREM', BEGUN_AT, job)
    redis.call('HDEL', BEGUN, job)
  end
end

-- Return of each job: its name, its line, document, and the notes of pools.
local function standings(jobs)
  local found = {}
  for _, job in ipairs(jobs) do
    local line = redis.call('HGET', OFFERS, job)
    if line then
      found[#found + 1] = job
      found[#found + 1] = line
      found[#found + 1] = redis.call('HGET', DOCUMENTS, job) or ''
      found[#found + 1] = redis.call('HGET', NOTES, job) or ''
    end
  end
  return found
end
