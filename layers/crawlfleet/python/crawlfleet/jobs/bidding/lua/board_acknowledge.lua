-- board_acknowledge: acknowledge an award: the job leaves the board; its keys are those of
-- board_prelude.
-- ARGV[1] worker
-- ARGV[2] job
-- ARGV[3] number   of the award
-- ARGV[4] now      epoch ms
-- ARGV[5] begun    epoch ms: older acknowledgements are forgotten
-- reply   1, or 0 where the job is not that award's any more
local worker, job, one = ARGV[1], ARGV[2], standing(ARGV[2])
local said = ARGV[3] .. ' ' .. worker
if not one or one.state ~= 'awarded' then
  return redis.call('HGET', BEGUN, job) == said and 1 or 0
end
if one.worker ~= worker or one.number ~= tonumber(ARGV[3]) then return 0 end
if tonumber(ARGV[4]) > one.until_ms then return 0 end
even_when_full(OFFERS)
take_off(job)
redis.call('HDEL', WORKERS, worker)
forget_begun(ARGV[5])
redis.call('HSET', BEGUN, job, said)
redis.call('ZADD', BEGUN_AT, ARGV[4], job)
return 1
