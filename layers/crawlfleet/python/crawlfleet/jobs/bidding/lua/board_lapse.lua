-- board_lapse: void the awards that nobody acknowledged in time; its keys are those of
-- board_prelude.
-- ARGV[1] now     epoch ms
-- ARGV[2] until   epoch ms at which the jobs' wait for another application ends
-- ARGV[3] count   jobs at most
-- ARGV[4] begun   epoch ms: older acknowledgements are forgotten
-- reply   {job, worker, job...}
even_when_full(OFFERS)
forget_begun(ARGV[4])
local before, found = '(' .. ARGV[1], {}
for _, job in ipairs(redis.call('ZRANGEBYSCORE', AWARDS, '-inf', before, 'LIMIT', 0, ARGV[3])) do
  local one = standing(job)
  if one then
    found[#found + 1] = job
    found[#found + 1] = one.worker
    take_back(job, one, tonumber(ARGV[2]))
  else
    redis.call('ZREM', AWARDS, job)
  end
end
return found
