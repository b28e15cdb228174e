-- board_read: how a job stands, and its applications; its keys are those of board_prelude.
-- ARGV[1] job
-- reply   {job, how it stands, document, notes, {worker, application, worker...}}, empty without one
local found = told({ ARGV[1] })
if #found > 0 then found[#found + 1] = redis.call('HGETALL', BIDS) end
return found
