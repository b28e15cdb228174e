-- board_lower: lower a job that nobody applied for, or not, and move it to the tail of its tenant's
-- queue; its keys are those of board_prelude.
-- ARGV[1] job
-- ARGV[2] lowered   so often before
-- ARGV[3] rank      empty where it keeps its place
-- ARGV[4] until     epoch ms at which its wait for an application ends
-- ARGV[5] more      1 to lower it, 0 to leave its demand as it is
-- reply   1, or 0 where it has changed
local job, one = ARGV[1], standing(ARGV[1])
if not one or one.state ~= 'waiting' or one.lowered ~= tonumber(ARGV[2]) then return 0 end
even_when_full(OFFERS)
one.lowered, one.until_ms = one.lowered + tonumber(ARGV[5]), tonumber(ARGV[4])
if ARGV[3] ~= '' then
  take_from_queue(job, one)
  one.rank = tonumber(ARGV[3])
  put_in_queue(job, one)
end
redis.call('ZADD', WAITS, ARGV[4], job)
note_standing(job, one)
return 1
