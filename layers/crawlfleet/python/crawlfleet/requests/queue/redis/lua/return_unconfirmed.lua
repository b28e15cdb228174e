-- return_unconfirmed: what a lease moved whose answer was lost returns to where it is served next.
-- KEYS[1] leases  ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2..12]     LIST  entries of priority 0 to 10, served from the tail
-- ARGV[1] token   whose lease it would be
-- ARGV[2] until   epoch ms at which that lease would end
-- reply   how many entries the token held until then
--
-- Looked for by the lease's end, so that it costs by what ends in that millisecond, of which MOST are
-- looked at, and not by all that is leased.
local MOST = 10000
even_when_full(KEYS[1])
local stem, mine, back = ARGV[1] .. ':', {}, {}
local found = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2], 'LIMIT', 0, MOST)
for i = #found, 1, -1 do
  if string.sub(found[i], 1, #stem + 1) == stem .. '{' then
    mine[#mine + 1], back[#back + 1] = found[i], string.sub(found[i], #stem + 1)
  end
end
apply('ZREM', KEYS[1], mine)
return push('RPUSH', 2, back)
