-- counts: what was submitted to a biz and processed of it lately.
-- KEYS[1] submitted   HASH  epoch second -> how many
-- KEYS[2] processed   HASH  epoch second -> how many
-- reply   {{second, how many, second...} as text, the same of the processed}
return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])}
