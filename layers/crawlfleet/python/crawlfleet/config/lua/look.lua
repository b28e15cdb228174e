-- look: the announced revision of the configuration, and whether it is the caller's turn to ask SSM.
-- KEYS[1] revision       STRING  the revision announced last
-- KEYS[2] revision_turn  STRING  there while somebody has the turn
-- ARGV[1] turn           ms that a turn lasts
-- ARGV[2] announcement   what the caller announces; nothing for no announcement
-- reply   the revision or nothing, and 1 where it is the caller's turn
even_when_full(KEYS[1])
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2]) end
local turn = redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1])
return {redis.call('GET', KEYS[1]) or '', turn and 1 or 0}
