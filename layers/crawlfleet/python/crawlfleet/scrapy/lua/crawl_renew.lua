-- crawl_renew: renew a process and its leases.
-- KEYS[1] processes  ZSET  process -> epoch ms at which it is taken to be gone
-- KEYS[2] leases     ZSET  process:id -> epoch ms at which the lease ends
-- ARGV[1] process
-- ARGV[2] term       ms until both end
-- ARGV[3] ids        one a line
-- reply   the ids that it no longer leases
even_when_full(KEYS[2])
local deadline, lost = string.format('%.0f', server_ms() + ARGV[2]), {}
redis.call('ZADD', KEYS[1], deadline, ARGV[1])
for _, id in ipairs(lines(ARGV[3])) do
  local member = ARGV[1] .. ':' .. id
  if redis.call('ZSCORE', KEYS[2], member) then
    redis.call('ZADD', KEYS[2], deadline, member)
  else
    lost[#lost + 1] = id
  end
end
return lost
