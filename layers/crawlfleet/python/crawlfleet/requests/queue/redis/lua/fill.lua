-- fill: one more part of what MongoDB has goes to the queue, if nobody has begun anew meanwhile.
-- KEYS[1] filled   STRING  'reached:nonce', ':nonce' when the queue is whole
-- KEYS[2..12]      LIST    entries of priority 0 to 10, newest at the head, served from the tail
-- ARGV[1] nonce    of the rebuild
-- ARGV[2] reached  ts up to which the queue is rebuilt now, epoch ms
-- ARGV[3] entries  one JSON object a line, first to be served first
-- reply   1, or 0 and no effect if this rebuild is not under way
if not filling(KEYS[1], ARGV[1]) then return 0 end
push('LPUSH', 2, lines(ARGV[3]))
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. ARGV[1])
return 1
