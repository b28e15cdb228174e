-- probe_save: a worker has found out what a way is like, or has not.
-- KEYS[1] probe    STRING  what is known, with the TTL of that
-- KEYS[2] probing  STRING  the worker that is finding it out
-- ARGV[1] worker
-- ARGV[2] found   '' where it has not
-- ARGV[3] keep    ms for which that is known
-- reply   1 if it was the asker's to find out
local mine = redis.call('GET', KEYS[2]) == ARGV[1]
if mine then redis.call('UNLINK', KEYS[2]) end
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return mine and 1 or 0
