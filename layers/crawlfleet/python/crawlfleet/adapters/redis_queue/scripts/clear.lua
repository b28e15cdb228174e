-- clear: drops what is queued and delayed, and begins a filling. What is leased stays.
-- KEYS[1] queue       LIST    entries as JSON, served from the tail
-- KEYS[2] delayed     ZSET    entry -> epoch ms at which it is due
-- KEYS[3] filled      STRING  'reached:nonce', ':nonce' when the queue is whole
-- KEYS[4] parked      HASH    host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[5] parked_due  ZSET    host -> epoch ms at which it is looked at
-- KEYS[6] parked_low  ZSET    host -> least ts of its list
-- ARGV[1] nonce       of the filling
-- reply   1, or 0 and no effect if something waits for a host, whose list is to be dropped first
if redis.call('ZCARD', KEYS[5]) > 0 then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[6])
redis.call('SET', KEYS[3], '0:' .. ARGV[1])
return 1
