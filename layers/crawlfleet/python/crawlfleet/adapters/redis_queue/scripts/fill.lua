-- fill: one more part of the truth goes to the queue, if nobody has begun anew meanwhile.
-- KEYS[1] queue    LIST    entries as JSON, newest at the head, served from the tail
-- KEYS[2] filled   STRING  'reached:nonce', ':nonce' when the queue is whole
-- ARGV[1] nonce    of the filling
-- ARGV[2] reached  ts up to which the queue is filled now, epoch ms
-- ARGV[3] entries  one JSON object a line, first to be served first
-- reply   1, or 0 and no effect if this filling is not under way
if not filling(KEYS[2], ARGV[1]) then return 0 end
apply('LPUSH', KEYS[1], lines(ARGV[3]))
redis.call('SET', KEYS[2], ARGV[2] .. ':' .. ARGV[1])
return 1
