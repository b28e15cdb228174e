-- beat: a worker lives. The first beat of a worker takes the place of one reserved wake-up.
-- KEYS[1] workers     ZSET  worker id -> epoch ms of its last beat
-- KEYS[2] wakes       ZSET  wake-up not yet a worker -> epoch ms of its reservation
-- ARGV[1] worker      its id
-- ARGV[2] now         epoch ms
-- ARGV[3] live after  epoch ms: a worker whose last beat is not later is taken to be dead
-- ARGV[4] forget      epoch ms: a worker whose last beat is not later is removed
-- reply   1 for a new worker, 0 for a known one
even_when_full(KEYS[1])
local last = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[4])
if last and tonumber(last) > tonumber(ARGV[3]) then return 0 end
redis.call('ZPOPMIN', KEYS[2])
return 1
