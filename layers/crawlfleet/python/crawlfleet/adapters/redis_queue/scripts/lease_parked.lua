-- lease_parked: moves entries that wait for hosts to a token's lease, oldest first of each.
-- KEYS[1] leases      ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] parked      HASH  host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[3] parked_due  ZSET  host -> epoch ms at which it is looked at
-- KEYS[4] parked_low  ZSET  host -> least ts of its list
-- KEYS[5..]           LIST  entries of each host, served from the head
-- ARGV[1] token       whose lease this becomes
-- ARGV[2] until       epoch ms at which the lease ends
-- ARGV[3..]           host, how many, epoch ms at which it is looked at again; host...
-- reply   of each host the leased entries, one JSON object a line
--
-- What the token holds already is not handed to it a second time; SPARE bounds what that may cost.
local SPARE = 1000
even_when_full(KEYS[1])
local reply, spare = {}, SPARE
for i = 5, #KEYS do
  local at = 3 + (i - 5) * 3
  local host, wanted, again = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local waiting = waiting_for(KEYS[2], KEYS[4], host, redis.call('LLEN', KEYS[i]))
  local taken, popped = {}, 0
  while #taken < wanted and popped < wanted + spare do
    local count = math.min(wanted - #taken, wanted + spare - popped)
    local found = redis.call('LPOP', KEYS[i], count)
    if not found then break end
    popped = popped + #found
    for _, entry in ipairs(found) do
      if redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1] .. ':' .. entry) == 1 then
        taken[#taken + 1] = entry
      end
    end
  end
  spare = spare - (popped - #taken)
  waiting.count, waiting.old = waiting.count - popped, waiting.old - popped
  if waiting.count > 0 and waiting.old <= 0 then
    waiting.old, waiting.least_of_old = waiting.count, waiting.least_of_new
    waiting.least_of_new = NO_TS
  end
  note_waiting(KEYS[2], KEYS[4], host, waiting)
  if waiting.count > 0 then
    redis.call('ZADD', KEYS[3], again, host)
  else
    redis.call('ZREM', KEYS[3], host)
  end
  reply[#reply + 1] = table.concat(taken, '\n')
end
return reply
