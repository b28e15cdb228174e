-- defer: entries that the token still holds wait for their hosts, in one list of each priority.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[3] parked_due  ZSET  place -> epoch ms at which it is looked at
-- KEYS[4] parked_low  ZSET  place -> least ts of its list
-- KEYS[5..]           LIST  entries of each place, served from the head
-- ARGV[1] token       whose lease it is
-- ARGV[2..]           host, place, epoch ms, least ts, entries one a line; host, place...
-- reply   how many of the entries the token held
even_when_full(KEYS[1])
local moved = 0
for i = 5, #KEYS do
  local at = 2 + (i - 5) * 5
  local host, place, due, least = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local entries, held = lines(ARGV[at + 4]), {}
  for n, member in ipairs(held_by(ARGV[1], entries)) do
    if redis.call('ZREM', KEYS[1], member) == 1 then held[#held + 1] = entries[n] end
  end
  if #held > 0 then
    local waiting = waiting_for(KEYS[2], KEYS[4], place, redis.call('LLEN', KEYS[i]))
    apply('RPUSH', KEYS[i], held)
    if waiting.count == 0 then
      waiting.old, waiting.least_of_old, waiting.least_of_new = #held, least, NO_TS
    else
      waiting.least_of_new = math.min(waiting.least_of_new, least)
    end
    waiting.count = waiting.count + #held
    note_waiting(KEYS[2], KEYS[4], place, waiting)
    redis.call('ZADD', KEYS[3], due, place)
    look_together(KEYS[3], due, host)
    moved = moved + #held
  end
end
return moved
