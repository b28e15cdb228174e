-- put_items: append items to the data queue, all of them or none.
-- KEYS[1] items       HASH    id -> item as JSON
-- KEYS[2] item_queue  LIST    ids, newest at the head, served from the tail
-- KEYS[3] item_bytes  STRING  bytes of all items
-- ARGV[1] limit       bytes that the queue key's items may have
-- ARGV[2..]           id, item, id, item...; an id that is there already is passed over
-- reply   how many items there are now, leased ones included, or -1: there is no room
local size, fresh = 0, {}
for i = 2, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    fresh[#fresh + 1] = i
    size = size + #ARGV[i + 1]
  end
end
if size > 0 and tonumber(redis.call('GET', KEYS[3]) or 0) + size > tonumber(ARGV[1]) then return -1 end
for _, i in ipairs(fresh) do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('LPUSH', KEYS[2], ARGV[i])
end
redis.call('INCRBY', KEYS[3], size)
return redis.call('HLEN', KEYS[1])
