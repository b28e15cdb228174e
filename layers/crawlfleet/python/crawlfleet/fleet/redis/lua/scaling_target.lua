-- scaling_target: read the target of a pool, or set it if nobody else has set it meanwhile.
-- KEYS[1] staff    HASH  pool -> 'version needed kept at quiet peak allowed', 'pool pace' -> pace;
--                        'floor stated' follow where anybody states needs
-- KEYS[2] leaving  ZSET  worker that is told to leave -> server's epoch ms
-- ARGV[1] pool
-- ARGV[2] read     the version that the caller has read; -1 to read only
-- ARGV[3] figures  'needed kept at quiet peak allowed' of the new target
-- reply   {1 if it is set, server's epoch ms, the standing 'version needed kept at quiet peak
--          allowed' or nil, throughput as text or nil, how many are leaving}
local standing = redis.call('HGET', KEYS[1], ARGV[1])
local version = tonumber(string.match(standing or '', '^%d+') or 0)
local decided = 0
if tonumber(ARGV[2]) == version then
  even_when_full(KEYS[1])
  standing, decided = string.format('%.0f %s', version + 1, ARGV[3]), 1
  redis.call('HSET', KEYS[1], ARGV[1], standing)
end
return {
  decided, server_ms(), standing, redis.call('HGET', KEYS[1], ARGV[1] .. ' pace'),
  redis.call('ZCARD', KEYS[2]),
}
