-- probe_save: cache a probe, or give up making it.
-- KEYS[1] probe    STRING  a probe, which expires
-- KEYS[2] probing  STRING  the worker that is probing
-- ARGV[1] worker
-- ARGV[2] found   the probe, or ''
-- ARGV[3] keep    ms until it expires
-- reply   1 if the worker had claimed it
local mine = redis.call('GET', KEYS[2]) == ARGV[1]
if mine then redis.call('UNLINK', KEYS[2]) end
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return mine and 1 or 0
