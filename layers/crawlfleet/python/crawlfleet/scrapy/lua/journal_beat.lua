-- journal_beat: raise a journal's number, if it is here what the journal says.
-- KEYS[1] beats     HASH  journal -> its last number, or forgotten, and the second of it
-- ARGV[1] journal
-- ARGV[2] expected  its last number; 0: it has none yet
-- ARGV[3] number    the next one
-- ARGV[4] force     1: set it whatever is here
-- reply   1 if it was raised, 0 if it is not what the journal says, 2 if the crawl was forgotten
local there = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '0', '^%S+')
if there == 'forgotten' and ARGV[4] ~= '1' then return 2 end
-- The next one is here where the answer to an earlier call was lost.
if there ~= ARGV[2] and there ~= ARGV[3] and ARGV[4] ~= '1' then return 0 end
if redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. server_second()) == 1 then sweep_journals(KEYS[1]) end
return 1
