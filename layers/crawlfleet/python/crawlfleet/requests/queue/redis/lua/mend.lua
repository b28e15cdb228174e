-- mend: puts leased entries that enqueue did not write into the spelling that finish will look for.
-- KEYS[1] leases  ZSET  token:entry -> epoch ms at which the lease ends
-- ARGV[1] token   whose lease it is
-- ARGV[2] until   epoch ms at which the lease ends
-- ARGV[3] found   entries as they were leased, one a line
-- ARGV[4] mended  those that can be read, spelled anew, one a line
-- reply   how many leases there are now of the mended
even_when_full(KEYS[1])
apply('ZREM', KEYS[1], held_by(ARGV[1], lines(ARGV[3])))
local mended = held_by(ARGV[1], lines(ARGV[4]))
for _, member in ipairs(mended) do redis.call('ZADD', KEYS[1], ARGV[2], member) end
return #mended
