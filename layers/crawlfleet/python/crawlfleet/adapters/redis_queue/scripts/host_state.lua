-- host_state: how a host is treated now.
-- KEYS[1] host_turns    HASH  * -> the host, tenant -> its turns; numbers, see host_prelude
-- KEYS[2] host_permits  ZSET  'worker tenant' -> epoch us at which its permits end
-- KEYS[3] host_held     HASH  'worker tenant' -> 'count granted', how many and epoch us
-- ARGV[1] now           epoch us, or empty for the server's clock
-- reply   {the host's numbers and now as text, permits held, tenants that count...}, or {}
local now = tonumber(ARGV[1]) or server_us()
local found = redis.call('HGETALL', KEYS[1])
if #found == 0 then return {} end
local host, reply = '', {'', 0}
local holding = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. full(now), '+inf')) do
  reply[2] = reply[2] + (numbers(redis.call('HGET', KEYS[3], member))[1] or 0)
  holding[string.match(member, ' (%S*)$')] = true
end
for i = 1, #found, 2 do
  if found[i] == '*' then
    host = found[i + 1]
  elseif holding[found[i]] or (numbers(found[i + 1])[4] or 0) + DEMAND > now then
    reply[#reply + 1] = found[i]
  end
end
reply[1] = host .. ' ' .. full(now)
return reply
