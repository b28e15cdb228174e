-- give_back_items: return items that the token leased, to be served next; the attempt does not count.
-- KEYS[1] item_leases  ZSET  token:id -> epoch ms at which the lease ends
-- KEYS[2] item_queue   LIST  ids, served from the tail
-- KEYS[3] item_tries   HASH  id -> how often it was leased
-- ARGV[1] token        whose lease it is
-- ARGV[2..]            ids, first to be served first
-- reply   how many of them the token held
even_when_full(KEYS[1])
local held = 0
for i = #ARGV, 2, -1 do
  if redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. ARGV[i]) == 1 then
    held = held + 1
    redis.call('RPUSH', KEYS[2], ARGV[i])
    redis.call('HINCRBY', KEYS[3], ARGV[i], -1)
  end
end
return held
