-- queue_bytes: the memory that a queue takes, about.
-- KEYS[1] items   STRING  bytes of all items of the biz's data queue
-- KEYS[2] parked  HASH    place -> its list in figures, * -> what waits for all hosts
-- KEYS[3..]       any     what else the queue has; of each the server measures SAMPLES elements
-- ARGV[1] entry   bytes that an entry takes in the list of a host, about
-- ARGV[2] place   bytes that a list of a host takes beside, about
-- ARGV[3] items   1 where the data queue counts, 0 where it counts with another queue of the biz
-- reply   {bytes, maxmemory of the server}
local SAMPLES = 20
local bytes = ARGV[3] == '1' and tonumber(redis.call('GET', KEYS[1]) or 0) or 0
for at = 2, #KEYS do
  bytes = bytes + (redis.call('MEMORY', 'USAGE', KEYS[at], 'SAMPLES', SAMPLES) or 0)
end
local places = math.max(0, redis.call('HLEN', KEYS[2]) - 1)
bytes = bytes + (redis.call('HGET', KEYS[2], '*') or 0) * ARGV[1] + places * ARGV[2]
return {bytes, tonumber(fact_of(account('memory'), 'maxmemory') or 0)}
