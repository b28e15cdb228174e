-- board_add: list a job on the board; its keys are those of board_prelude.
-- ARGV[1] job       tenant/biz/name
-- ARGV[2] pool      - for any
-- ARGV[3] priority
-- ARGV[4] weight    of its tenant
-- ARGV[5] lowered
-- ARGV[6] since     epoch ms at which it came
-- ARGV[7] rank
-- ARGV[8] until     epoch ms at which its wait for an application ends
-- ARGV[9] most      jobs of one tenant
-- ARGV[10] all      jobs that all tenants share
-- ARGV[11] least    jobs that each tenant may have
-- ARGV[12] pools    most pools with jobs of their own
-- ARGV[13] begun    epoch ms: a job that was acknowledged later is not listed
-- ARGV[14] document
-- reply    offered, standing, begun or full
local job = ARGV[1]
if redis.call('HEXISTS', OFFERS, job) == 1 then return 'standing' end
if tonumber(redis.call('ZSCORE', BEGUN_AT, job) or -1) > tonumber(ARGV[13]) then return 'begun' end
local tenant = tenant_of(job)
local has = tonumber(redis.call('HGET', COUNTS, tenant) or 0)
local tenants = tonumber(redis.call('HGET', COUNTS, '*') or 0) + (has == 0 and 1 or 0)
local share = math.min(tonumber(ARGV[9]), math.floor(tonumber(ARGV[10]) / tenants))
if has >= math.max(tonumber(ARGV[11]), share) then return 'full' end
if redis.call('HEXISTS', POOLS, ARGV[2]) == 0 and redis.call('HLEN', POOLS) >= tonumber(ARGV[12])
then
  return 'full'
end
if has == 0 then
  redis.call('HINCRBY', COUNTS, '*', 1)
  enter(tenant)
end
redis.call('HINCRBY', COUNTS, tenant, 1)
redis.call('ZADD', INDEX, 0, job)
redis.call('HSET', DOCUMENTS, job, ARGV[14])
redis.call('HDEL', BEGUN, job)
redis.call('ZREM', BEGUN_AT, job)
local one = {
  state = 'waiting', priority = ARGV[3], weight = tonumber(ARGV[4]), lowered = tonumber(ARGV[5]),
  since = ARGV[6], rank = tonumber(ARGV[7]), until_ms = tonumber(ARGV[8]), number = 0,
  pool = ARGV[2], worker = '',
}
put_in_queue(job, one)
redis.call('ZADD', WAITS, ARGV[8], job)
note_standing(job, one)
return 'offered'
