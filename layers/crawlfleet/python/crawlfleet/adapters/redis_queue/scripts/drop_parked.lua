-- drop_parked: what waits for some hosts is dropped.
-- KEYS[1] parked      HASH  host -> 'count old least_of_old least_of_new', * -> count of all
-- KEYS[2] parked_due  ZSET  host -> epoch ms at which it is looked at
-- KEYS[3] parked_low  ZSET  host -> least ts of its list
-- KEYS[4..]           LIST  entries of each host
-- ARGV[1..]           the hosts, in the same order
-- reply   how many hosts wait still
even_when_full(KEYS[1])
for i, host in ipairs(ARGV) do
  local waiting = waiting_for(KEYS[1], KEYS[3], host, 0)
  redis.call('UNLINK', KEYS[3 + i])
  note_waiting(KEYS[1], KEYS[3], host, waiting)
  redis.call('ZREM', KEYS[2], host)
end
return redis.call('ZCARD', KEYS[2])
