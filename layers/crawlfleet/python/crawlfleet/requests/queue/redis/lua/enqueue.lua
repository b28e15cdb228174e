-- enqueue: new entries go to the head of their priority's list and are counted as submitted.
-- KEYS[1] submitted  HASH  epoch second -> entries enqueued in it
-- KEYS[2..12]        LIST  entries of priority 0 to 10, newest at the head, served from the tail
-- ARGV[1] now        epoch second
-- ARGV[2] entries    one JSON object a line, first to be served first
-- reply   how many wait in the queue now, these included
local many = push('LPUSH', 2, lines(ARGV[2]))
count(KEYS[1], ARGV[1], many)
return queued(2)
