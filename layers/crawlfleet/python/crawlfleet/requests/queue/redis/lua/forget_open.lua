-- forget_open: queues that were found empty are open no more, unless they were announced since.
-- KEYS[1] open    ZSET  tenant/biz/queue -> server's epoch ms of its latest announcement
-- ARGV[1] linger  ms for which an announcement holds whatever is found
-- ARGV[2..]       tenant/biz/queue, and the epoch ms of its announcement before it was found empty
-- reply   how many are forgotten
local before, gone = server_ms() - ARGV[1], 0
for i = 2, #ARGV, 2 do
  local at = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]))
  if at and at == tonumber(ARGV[i + 1]) and at < before then
    gone = gone + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return gone
