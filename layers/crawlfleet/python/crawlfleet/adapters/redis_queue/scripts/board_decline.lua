-- board_decline: why workers of a pool do not apply for jobs; its keys are those of board_prelude.
-- ARGV[1] pool
-- ARGV[2] most   pools of which a job has a reason
-- ARGV[3..]      job, reason, job, reason...
-- reply   how many of the jobs are on the board
local found, pool = 0, ARGV[1]
for i = 3, #ARGV, 2 do
  local job = ARGV[i]
  if redis.call('HEXISTS', OFFERS, job) == 1 then
    found = found + 1
    local notes = { pool .. ' ' .. ARGV[i + 1] }
    for _, line in ipairs(lines(redis.call('HGET', NOTES, job) or '')) do
      if string.match(line, '^%S+') ~= pool and #notes < tonumber(ARGV[2]) then
        notes[#notes + 1] = line
      end
    end
    redis.call('HSET', NOTES, job, table.concat(notes, '\n'))
  end
end
return found
