-- list_open: the queues that may have something.
-- KEYS[1] open    ZSET  tenant/biz/queue -> server's epoch ms of its latest announcement
-- reply   {name, epoch ms, ...}
return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
