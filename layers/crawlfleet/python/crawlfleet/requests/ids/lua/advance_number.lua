-- advance_number: spends positions and renews the lease, if fence, deadline and mark still hold.
-- KEYS[1] numbers  ZSET  worker number -> epoch ms at which its lease ends
-- KEYS[2] fences   HASH  worker number -> fence of its latest lease
-- KEYS[3] marks    HASH  worker number -> mark; past 2^53, so compared as text
-- ARGV[1] number   the worker number
-- ARGV[2] fence    of the holder's lease
-- ARGV[3] mark     as the holder knows it
-- ARGV[4] new      mark
-- ARGV[5] now      epoch ms
-- ARGV[6] until    epoch ms at which the lease shall end
-- reply   1, or 0 and no effect
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= tonumber(ARGV[5]) then return 0 end
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[3] then return 0 end
even_when_full(KEYS[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
redis.call('ZADD', KEYS[1], ARGV[6], ARGV[1])
return 1
