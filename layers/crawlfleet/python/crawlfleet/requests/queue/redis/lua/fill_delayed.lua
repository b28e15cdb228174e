-- fill_delayed: what waits for its time joins, if nobody has begun anew meanwhile.
-- KEYS[1] delayed  ZSET    entry -> epoch ms at which it is due
-- KEYS[2] filled   STRING  'reached:nonce', ':nonce' when the queue is whole
-- ARGV[1] nonce    of the rebuild
-- ARGV[2] entries  one JSON object a line
-- ARGV[3] dues     epoch ms, one a line, in the same order
-- reply   1, or 0 and no effect if this rebuild is not under way
--
-- What a worker has delayed since the rebuild began is newer, and stays.
if not filling(KEYS[2], ARGV[1]) then return 0 end
local dues = lines(ARGV[3])
for i, entry in ipairs(lines(ARGV[2])) do redis.call('ZADD', KEYS[1], 'NX', dues[i], entry) end
return 1
