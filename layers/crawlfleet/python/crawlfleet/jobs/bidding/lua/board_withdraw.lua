-- board_withdraw: remove a job from the board; its keys are those of board_prelude.
-- ARGV[1] job
-- reply   1, or 0 where it is not on the board
local job, one = ARGV[1], standing(ARGV[1])
if not one then return 0 end
even_when_full(OFFERS)
if one.state == 'awarded' then
  if redis.call('HGET', WORKERS, one.worker) == job then
    redis.call('HDEL', WORKERS, one.worker)
  end
else
  take_from_queue(job, one)
  free_applicants(job)
end
take_off(job)
return 1
