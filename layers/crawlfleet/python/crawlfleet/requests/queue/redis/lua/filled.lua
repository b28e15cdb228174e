-- filled: the queue is whole.
-- KEYS[1] filled  STRING  'reached:nonce', ':nonce' when the queue is whole
-- ARGV[1] nonce   of the rebuild
-- reply   1, also if it was whole already; 0 and no effect if another has begun anew
if redis.call('GET', KEYS[1]) == ':' .. ARGV[1] then return 1 end
if not filling(KEYS[1], ARGV[1]) then return 0 end
even_when_full(KEYS[1])
redis.call('SET', KEYS[1], ':' .. ARGV[1])
return 1
