-- relist: lists as leased what Redis has forgotten; a lease that is listed is not shortened.
-- KEYS[1] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- ARGV[1] token    whose leases they are
-- ARGV[2] until    epoch ms at which they end
-- ARGV[3] entries  one JSON object a line
-- reply   how many had been forgotten
even_when_full(KEYS[1])
local forgotten = 0
for _, member in ipairs(held_by(ARGV[1], lines(ARGV[3]))) do
  forgotten = forgotten + redis.call('ZADD', KEYS[1], 'GT', ARGV[2], member)
end
return forgotten
