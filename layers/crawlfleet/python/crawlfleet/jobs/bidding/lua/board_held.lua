-- board_held: get the job that a worker has applied for or won; its keys are those of
-- board_prelude.
-- ARGV[1] worker
-- reply   {job, its line, document, notes}, empty without one
local job = redis.call('HGET', WORKERS, ARGV[1])
if not job then return {} end
return standings({ job })
