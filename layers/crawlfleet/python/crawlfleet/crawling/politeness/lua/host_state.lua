-- host_state: the state of a host.
-- KEYS[1] host    HASH  * -> the host, tenant -> its slots, 'worker tenant' -> permits
-- KEYS[2] strain  HASH  origin -> its overload, for all tenants
-- KEYS[3] own     HASH  origin -> its overload, for one tenant; there if one is asked for
-- ARGV[1] now     epoch us, or empty for the server's clock
-- reply   {the host's numbers and now as text, permits held, how many lines of overload follow,
--          'until overload origin' of each origin, tenants that count and
--          'tenant us' between two slots of those whose next one is not due or that count...}
local now = tonumber(ARGV[1]) or server_us()
local found = redis.call('HGETALL', KEYS[1])
local host, reply, holding = '0 0 0 0 0 0 0', {'', 0, 0}, {}
for i = 1, #found, 2 do
  local of = match(found[i], ' (%S*)$')
  local count, ends = match(found[i + 1], '^(%d+) %d+ (%d+)$')
  if of and tonumber(ends) > now then
    reply[2], holding[of] = reply[2] + count, true
  elseif found[i] == '*' then
    host = found[i + 1]
  end
end
for at = 2, #KEYS do
  local strained = redis.call('HGETALL', KEYS[at])
  for i = 1, #strained, 2 do
    local until_us, overload = match(strained[i + 1], '^(%d+) (%d+) %d+$')
    if until_us then
      reply[3] = reply[3] + 1
      reply[#reply + 1] = format('%s %s %s', until_us, overload, strained[i])
    end
  end
end
for i = 1, #found, 2 do
  if found[i] ~= '*' and not match(found[i], ' ') then
    local last, interval, _, unmet_at = match(found[i + 1], '^(%d+) (%d+) (%d+) (%d+)')
    local counts = holding[found[i]] or (unmet_at or 0) + DEMAND > now
    if counts then reply[#reply + 1] = found[i] end
    if interval and (counts or last + interval > now) then
      reply[#reply + 1] = found[i] .. ' ' .. interval
    end
  end
end
reply[1] = host .. format(' %.0f', now)
return reply
