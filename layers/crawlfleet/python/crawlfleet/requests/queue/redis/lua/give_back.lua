-- give_back: entries that the token still holds return to where they are served next.
-- KEYS[1] leases   ZSET  token:entry -> epoch ms at which the lease ends
-- KEYS[2..12]      LIST  entries of priority 0 to 10, served from the tail
-- ARGV[1] token    whose lease it is
-- ARGV[2] entries  one JSON object a line, first to be served first
-- reply   how many of the entries the token held
--
-- Of an entry that comes twice the later place counts.
even_when_full(KEYS[1])
local entries, back = lines(ARGV[2]), {}
local members = held_by(ARGV[1], entries)
for i = #entries, 1, -1 do
  if redis.call('ZREM', KEYS[1], members[i]) == 1 then back[#back + 1] = entries[i] end
end
return push('RPUSH', 2, back)
