-- probe_look: get a cached probe, or claim to make it.
-- KEYS[1] probe    STRING  a probe, which expires
-- KEYS[2] probing  STRING  the worker that is probing
-- ARGV[1] worker
-- ARGV[2] hold     ms for which no other one probes
-- reply   {the probe or nil, 1 if the worker has claimed it}
local known = redis.call('GET', KEYS[1])
if known then return { known, 0 } end
if redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  return { false, 1 }
end
return { false, redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0 }
