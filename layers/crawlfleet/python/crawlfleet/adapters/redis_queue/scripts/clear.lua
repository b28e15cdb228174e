-- clear: drops what is queued and delayed, and begins a filling. What is leased stays.
-- KEYS[1] queue    LIST    entries as JSON, served from the tail
-- KEYS[2] delayed  ZSET    entry -> epoch ms at which it is due
-- KEYS[3] filled   STRING  'reached:nonce', ':nonce' when the queue is whole
-- ARGV[1] nonce    of the filling
-- reply   1
redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('SET', KEYS[3], '0:' .. ARGV[1])
return 1
