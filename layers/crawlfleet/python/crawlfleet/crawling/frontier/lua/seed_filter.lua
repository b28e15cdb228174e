-- seed_filter: look keys up in a segment's Bloom filter, or add them.
-- KEYS[1] seeds  HASH    plan: how the filter is laid out; keys: how many have been added
-- KEYS[2] part   STRING  the filter's bits; all further keys are such too, layer after layer
-- ARGV[1] task   seen, or add
-- ARGV[2] plan   how the caller lays it out; where another plan stands, that is the answer
-- ARGV[3] ends   epoch s after which nobody asks any more; or empty, and it is kept for
-- ARGV[4] kept   so many seconds after it was last added to
-- ARGV[5] room   bytes that one call may allocate: a key whose string it may not is not added
-- ARGV[6] keys   16 bytes each
-- ARGV[7..]      of each layer: keys it may hold, bits a key, blocks, blocks of a string
-- reply   {plan that stands, for each key 1 or 0: whether it may have been there}
--
-- A layer's blocks are of 512 bytes, and all bits of a key lie in one (crawling/frontier/bloom.py). Of a key's
-- four numbers a, b, c, d the first gives the block, and the upper 12 bits of c, c + d, c + 2d + b,
-- c + 3d + 3b and so on the bits.
local BLOCK = 512
local MASKS = { [0] = 128, 64, 32, 16, 8, 4, 2, 1 }
local byte, char, floor = string.byte, string.char, math.floor
local rshift, band, bor = bit.rshift, bit.band, bit.bor

local found = redis.call('HMGET', KEYS[1], 'plan', 'keys')
if found[1] and found[1] ~= ARGV[2] then return { found[1], '' } end
local before = tonumber(found[2] or 0)
local held, room = before, tonumber(ARGV[5])
local batch, count = ARGV[6], #ARGV[6] / 16

local layers, first, total = {}, 2, 0
for i = 7, #ARGV, 4 do
  local layer = {
    first = first,
    from = total,
    to = total + ARGV[i],
    bits = tonumber(ARGV[i + 1]),
    blocks = tonumber(ARGV[i + 2]),
    part = tonumber(ARGV[i + 3]),
  }
  total, first = layer.to, first + math.ceil(layer.blocks / layer.part)
  layers[#layers + 1] = layer
end

local current = 1
while current < #layers and held >= layers[current].to do current = current + 1 end

-- What is smaller than all the blocks that would be looked at is read at once.
for i = 1, current do
  local layer = layers[i]
  if layer.blocks <= layer.part and layer.blocks <= count then
    layer.whole = redis.call('GET', KEYS[layer.first]) or ''
  end
end

-- The string that a key's block lies in, and where it begins there.
local function place_of(layer, a)
  local block = a % layer.blocks
  local part = floor(block / layer.part)
  return KEYS[layer.first + part], (block - part * layer.part) * BLOCK, part
end

local function has(layer, a, b, c, d)
  local key, start = place_of(layer, a)
  local text, base = layer.whole, start + 1
  if not text then
    text, base = redis.call('GETRANGE', key, start, start + BLOCK - 1), 1
  end
  if text == '' then return false end
  for _ = 1, layer.bits do
    local place = rshift(c, 20)
    local low = place % 8
    if band(byte(text, base + (place - low) / 8), MASKS[low]) == 0 then return false end
    c, d = c + d, d + b
  end
  return true
end

local function life()
  if ARGV[3] == '' then return tonumber(ARGV[4]) end
  return ARGV[3] - floor(server_ms() / 1000)
end

-- Makes a string at its full size, so that it is neither copied nor larger than needed as it fills.
local function allocated(layer, key, part)
  if redis.call('STRLEN', key) > 0 then return true end
  local size = math.min(layer.part, layer.blocks - part * layer.part) * BLOCK
  if size > room then return false end
  room = room - size
  redis.call('SETRANGE', key, size - 1, '\0')
  redis.call('EXPIRE', key, life())
  return true
end

local there = {}
local function put(layer, a, b, c, d)
  local key, start, part = place_of(layer, a)
  if there[key] == nil then there[key] = allocated(layer, key, part) end
  if not there[key] then return 0 end
  local text, changed = redis.call('GETRANGE', key, start, start + BLOCK - 1), {}
  for _ = 1, layer.bits do
    local place = rshift(c, 20)
    local low = place % 8
    local at = (place - low) / 8
    changed[at] = bor(changed[at] or byte(text, at + 1), MASKS[low])
    c, d = c + d, d + b
  end
  for at, value in pairs(changed) do
    redis.call('SETRANGE', key, start + at, char(value))
  end
  return 1
end

local answers = {}
local adding = ARGV[1] == 'add' and life() > 0
for i = 1, count do
  local a, b, c, d = struct.unpack('>I4I4I4I4', batch, i * 16 - 15)
  local known = false
  -- The last layer is the largest: a known key is most likely there.
  for number = current, 1, -1 do
    known = held > layers[number].from and has(layers[number], a, b, c, d)
    if known then break end
  end
  answers[i] = known and '1' or '0'
  if adding and not known and held < total then
    if held >= layers[current].to then current = current + 1 end
    held = held + put(layers[current], a, b, c, d)
  end
end

if held > before then
  redis.call('HSET', KEYS[1], 'plan', ARGV[2], 'keys', held)
  redis.call('EXPIRE', KEYS[1], life())
  for key = 2, ARGV[3] == '' and #KEYS or 0 do redis.call('EXPIRE', KEYS[key], life()) end
end
return { ARGV[2], table.concat(answers) }
