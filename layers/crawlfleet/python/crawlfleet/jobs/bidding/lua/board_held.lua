-- board_held: the job that a worker has applied for, or has won; its keys are those of board_prelude.
-- ARGV[1] worker
-- reply   {job, how it stands, document, notes}, empty without one
local job = redis.call('HGET', WORKERS, ARGV[1])
if not job then return {} end
return told({ job })
