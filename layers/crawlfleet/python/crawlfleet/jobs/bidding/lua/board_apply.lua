-- board_apply: apply for a job; its keys are those of board_prelude.
-- ARGV[1] worker
-- ARGV[2] job
-- ARGV[3] until        epoch ms at which the window ends that the first application opens
-- ARGV[4] most         applications for one job
-- ARGV[5] application
-- reply   applied, busy, gone or full
local worker, job = ARGV[1], ARGV[2]
local holds, one = redis.call('HGET', WORKERS, worker), standing(job)
if holds then
  return holds == job and one and one.state == 'applied' and 'applied' or 'busy'
end
if not one or one.state == 'awarded' then return 'gone' end
if one.number >= tonumber(ARGV[4]) then return 'full' end
even_when_full(OFFERS)
redis.call('HSET', BIDS, worker, ARGV[5])
redis.call('HSET', WORKERS, worker, job)
if one.state == 'waiting' then
  one.state, one.until_ms = 'applied', tonumber(ARGV[3])
  redis.call('ZREM', WAITS, job)
  redis.call('ZADD', WINDOWS, ARGV[3], job)
end
one.number = one.number + 1
note_standing(job, one)
return 'applied'
