-- add_phases: adds to a biz's account of where its workers spend their time.
-- KEYS[1] phases  HASH  phase -> seconds
-- ARGV[1] ttl     seconds after which an unused account is forgotten
-- ARGV[2..]       phase, seconds, phase, seconds...
-- reply   how many phases were added to
for i = 2, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return (#ARGV - 1) / 2
