-- finish: the token's entries leave Redis; what was processed is counted.
-- KEYS[1] leases     ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2] processed  HASH  epoch second -> requests processed in it
-- ARGV[1] token      whose lease it is
-- ARGV[2] now        epoch second
-- ARGV[3] count      requests processed
-- ARGV[4] entries    one JSON object a line
-- reply   how many of the entries the token held
even_when_full(KEYS[1])
count(KEYS[2], ARGV[2], tonumber(ARGV[3]))
return apply('ZREM', KEYS[1], held_by(ARGV[1], lines(ARGV[4])))
