-- finish_items: remove items that the token leased.
-- KEYS[1] item_leases  ZSET    token:id -> epoch ms at which the lease ends
-- KEYS[2] items        HASH    id -> item as JSON
-- KEYS[3] item_tries   HASH    id -> how often it was leased
-- KEYS[4] item_bytes   STRING  bytes of all items
-- ARGV[1] token        whose lease it is
-- ARGV[2..]            ids
-- reply   how many of them the token held
even_when_full(KEYS[1])
local held, size = 0, 0
for i = 2, #ARGV do
  if redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. ARGV[i]) == 1 then
    held = held + 1
    size = size + redis.call('HSTRLEN', KEYS[2], ARGV[i])
    redis.call('HDEL', KEYS[2], ARGV[i])
    redis.call('HDEL', KEYS[3], ARGV[i])
  end
end
if held > 0 then redis.call('DECRBY', KEYS[4], size) end
return held
