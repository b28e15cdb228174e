-- drop_deferred: what waits at some places (requests.queue.ageing) is dropped.
-- KEYS[1] parked      HASH  place -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[2] parked_due  ZSET  place -> epoch ms at which it is looked at
-- KEYS[3] parked_low  ZSET  place -> least ts of its list
-- KEYS[4..]           LIST  entries of each place
-- ARGV[1..]           the places, in the same order
-- reply   how many places are left
even_when_full(KEYS[1])
for i, place in ipairs(ARGV) do
  local waiting = waiting_for(KEYS[1], KEYS[3], place, 0)
  redis.call('UNLINK', KEYS[3 + i])
  note_waiting(KEYS[1], KEYS[3], place, waiting)
  redis.call('ZREM', KEYS[2], place)
end
return redis.call('ZCARD', KEYS[2])
