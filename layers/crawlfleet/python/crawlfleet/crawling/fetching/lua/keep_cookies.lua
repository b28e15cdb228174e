-- keep_cookies: the cookies of a job, for whichever worker needs them next.
-- KEYS[1] cookies  STRING  the jar as its worker encodes it; forgotten after a while
-- ARGV[1] jar      what replaces it
-- ARGV[2] seconds  until it is forgotten
-- reply   1
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
