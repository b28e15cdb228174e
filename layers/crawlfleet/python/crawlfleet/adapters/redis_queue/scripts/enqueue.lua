-- enqueue: new entries go to the head of the queue and are counted as submitted.
-- KEYS[1] queue      LIST  entries as JSON, newest at the head, served from the tail
-- KEYS[2] submitted  HASH  epoch second -> entries enqueued in it
-- ARGV[1] now        epoch second
-- ARGV[2] entries    one JSON object a line, first to be served first
-- reply   how many wait in the queue now, these included
local entries = lines(ARGV[2])
apply('LPUSH', KEYS[1], entries)
count(KEYS[2], ARGV[1], #entries)
return redis.call('LLEN', KEYS[1])
