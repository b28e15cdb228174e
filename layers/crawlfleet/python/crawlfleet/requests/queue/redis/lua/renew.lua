-- renew: the lease of the entries that the token still holds is extended.
-- KEYS[1] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- ARGV[1] token    whose lease it is
-- ARGV[2] until    epoch ms at which it shall end
-- ARGV[3] entries  one JSON object a line
-- reply   the entries that the token no longer holds, one JSON object a line
even_when_full(KEYS[1])
local entries, lost = lines(ARGV[3]), {}
for i, member in ipairs(held_by(ARGV[1], entries)) do
  if redis.call('ZSCORE', KEYS[1], member) then
    redis.call('ZADD', KEYS[1], ARGV[2], member)
  else
    lost[#lost + 1] = entries[i]
  end
end
return table.concat(lost, '\n')
