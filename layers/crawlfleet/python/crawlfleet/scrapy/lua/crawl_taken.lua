-- crawl_taken: end the transit of a batch of start URLs.
-- KEYS[1] taking  LIST  the batch's name, then its start URLs
-- ARGV[1] batch   its name
-- reply   1, or 0 if another one is in transit
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('UNLINK', KEYS[1])
return 1
