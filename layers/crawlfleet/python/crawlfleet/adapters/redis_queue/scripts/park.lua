-- park: entries that the token still holds wait for their hosts, in one list each.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] parked      HASH  host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[3] parked_due  ZSET  host -> epoch ms at which it is looked at
-- KEYS[4] parked_low  ZSET  host -> least ts of its list
-- KEYS[5..]           LIST  entries of each host, served from the head
-- ARGV[1] token       whose lease it is
-- ARGV[2..]           host, epoch ms, least ts, entries one a line; host, epoch ms...
-- reply   how many of the entries the token held
even_when_full(KEYS[1])
local moved = 0
for i = 5, #KEYS do
  local at = 2 + (i - 5) * 4
  local host, due, least = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local entries, held = lines(ARGV[at + 3]), {}
  for n, member in ipairs(held_by(ARGV[1], entries)) do
    if redis.call('ZREM', KEYS[1], member) == 1 then held[#held + 1] = entries[n] end
  end
  if #held > 0 then
    local waiting = waiting_for(KEYS[2], KEYS[4], host, redis.call('LLEN', KEYS[i]))
    apply('RPUSH', KEYS[i], held)
    if waiting.count == 0 then
      waiting.old, waiting.least_of_old, waiting.least_of_new = #held, least, NO_TS
    else
      waiting.least_of_new = math.min(waiting.least_of_new, least)
    end
    waiting.count = waiting.count + #held
    note_waiting(KEYS[2], KEYS[4], host, waiting)
    redis.call('ZADD', KEYS[3], due, host)
    moved = moved + #held
  end
end
return moved
