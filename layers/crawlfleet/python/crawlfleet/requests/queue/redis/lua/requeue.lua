-- requeue: recovered entries go to the tail of their list, where they are served next. Not counted.
-- KEYS[1] queue    LIST  entries of one priority, newest at the head, served from the tail
-- ARGV[1] entries  one JSON object a line, first to be served first
-- reply   how many were queued
local entries, backwards = lines(ARGV[1]), {}
for i = #entries, 1, -1 do backwards[#backwards + 1] = entries[i] end
apply('RPUSH', KEYS[1], backwards)
return #entries
