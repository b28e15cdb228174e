-- delay: entries that the token still holds wait for their time; lease promotes them when it comes.
-- KEYS[1] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] delayed  ZSET  entry -> epoch ms at which it is due
-- ARGV[1] token    whose lease it is
-- ARGV[2] entries  one JSON object a line
-- ARGV[3] dues     epoch ms, one a line, in the same order
-- reply   how many of the entries the token held
even_when_full(KEYS[1])
local entries, dues, delayed = lines(ARGV[2]), lines(ARGV[3]), 0
for i, member in ipairs(held_by(ARGV[1], entries)) do
  if redis.call('ZREM', KEYS[1], member) == 1 then
    redis.call('ZADD', KEYS[2], dues[i], entries[i])
    delayed = delayed + 1
  end
end
return delayed
