-- probe_look: what is known of a way, or whether the asker is to find it out.
-- KEYS[1] probe    STRING  what is known, with the TTL of that
-- KEYS[2] probing  STRING  the worker that is finding it out
-- ARGV[1] worker
-- ARGV[2] hold     ms for which no other one finds it out
-- reply   {what is known or nil, 1 if it is the asker's}
local known = redis.call('GET', KEYS[1])
if known then return { known, 0 } end
if redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  return { false, 1 }
end
return { false, redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0 }
