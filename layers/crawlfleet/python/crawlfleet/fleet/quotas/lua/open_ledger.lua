-- open_ledger: begin the ledger of an account, where there is none or a stale one.
-- KEYS[1] account  HASH  see exchange
-- KEYS[2] ends     ZSET  see exchange
-- KEYS[3] ledgers  ZSET  see exchange
-- ARGV[1] nonce    of the new ledger, as MongoDB has it now
-- ARGV[2] used     all that earlier ledgers may have granted
-- ARGV[3] stale    nonce of the ledger to replace, or empty
-- ARGV[4] account
-- ARGV[5] most     ledgers of the tenant
-- ARGV[6] now      epoch ms, or empty for the server's clock
-- reply   {the nonce of the ledger that there is, account...}: those that have to go for it, which
--         nobody has asked of for longest
local nonce = redis.call('HGET', KEYS[1], 'nonce')
if nonce and nonce ~= ARGV[3] then return { nonce } end
local now, life = tonumber(ARGV[6]) or server_ms(), 30 * 86400
redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'ceiling', ARGV[2], 'spent', ARGV[2],
  'out', 0, 'doubt', 0, 'wants', 0)
redis.call('ZADD', KEYS[3], now, ARGV[4])
redis.call('EXPIRE', KEYS[1], life)
redis.call('EXPIRE', KEYS[3], life)
local reply, beyond = { ARGV[1] }, redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[5])
if beyond > 0 then
  for _, account in ipairs(redis.call('ZRANGE', KEYS[3], 0, math.min(beyond, 100) - 1)) do
    if account ~= ARGV[4] then reply[#reply + 1] = account end
  end
end
return reply
