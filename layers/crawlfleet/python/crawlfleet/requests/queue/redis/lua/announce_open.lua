-- announce_open: queues are about to get something.
-- KEYS[1] open    ZSET  tenant/biz/queue -> server's epoch ms of its latest announcement
-- ARGV[...]       tenant/biz/queue
-- reply   how many were not known to be open
even_when_full(KEYS[1])
local at, new = string.format('%.0f', server_ms()), 0
for _, name in ipairs(ARGV) do new = new + redis.call('ZADD', KEYS[1], at, name) end
return new
