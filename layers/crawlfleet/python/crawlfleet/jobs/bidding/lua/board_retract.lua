-- board_retract: void a worker's open application or award; its keys are those of
-- board_prelude.
-- ARGV[1] worker
-- ARGV[2] job
-- ARGV[3] until   epoch ms at which the job's wait for another application ends
-- reply   1, or 0 where the worker has another job, or none
local worker, job = ARGV[1], ARGV[2]
if redis.call('HGET', WORKERS, worker) ~= job then return 0 end
even_when_full(OFFERS)
local one = standing(job)
if not one then
  redis.call('HDEL', WORKERS, worker)
  return 1
end
if one.state == 'awarded' then
  take_back(job, one, tonumber(ARGV[3]))
  return 1
end
redis.call('HDEL', WORKERS, worker)
redis.call('HDEL', BIDS, worker)
one.number = one.number - 1
if one.number == 0 then
  one.state, one.until_ms = 'waiting', tonumber(ARGV[3])
  redis.call('ZREM', WINDOWS, job)
  redis.call('ZADD', WAITS, ARGV[3], job)
end
note_standing(job, one)
return 1
