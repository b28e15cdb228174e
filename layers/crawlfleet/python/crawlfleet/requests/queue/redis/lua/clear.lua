-- clear: drops what is queued and delayed, and begins a rebuild. What is leased stays.
-- KEYS[1] filled      STRING  'reached:nonce', ':nonce' when the queue is whole
-- KEYS[2] parked_due  ZSET    host -> epoch ms at which it is looked at
-- KEYS[3..]           all that is dropped: lists, ticks, delayed, and the rest of what is deferred
-- ARGV[1] nonce       of the rebuild
-- reply   1, or 0 and no effect if something waits for a host, whose list is to be dropped first
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
redis.call('UNLINK', unpack(KEYS, 2))
redis.call('SET', KEYS[1], '0:' .. ARGV[1])
return 1
