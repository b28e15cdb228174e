-- board_read: get a job and its applications; its keys are those of board_prelude.
-- ARGV[1] job
-- reply   {job, its line, document, notes, {worker, application, worker...}}, empty without one
local found = standings({ ARGV[1] })
if #found > 0 then found[#found + 1] = redis.call('HGETALL', BIDS) end
return found
