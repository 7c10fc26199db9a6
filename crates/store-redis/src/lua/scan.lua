-- Records in the order of their names. ARGV: 1 floor, 2 lowest, 3 highest, 4 how many.

local store, why = current(read_head(), ARGV[1])
if not store then return why end
if not is_whole() then return 'damaged' end

-- Looked at together, since deleted ones may lie between them.
local MIN_PAGE = 64

local lowest, wanted, names, records = ARGV[2], tonumber(ARGV[4]), {}, {}
local size = math.max(wanted, MIN_PAGE)
repeat
  local page = redis.call('ZRANGEBYLEX', KEYS[2], lowest, ARGV[3], 'LIMIT', 0, size)
  local found = #page > 0 and redis.call('HMGET', KEYS[3], unpack(page)) or {}
  for i, name in ipairs(page) do
    if found[i] ~= '' and #names < wanted then
      names[#names + 1] = name
      records[#records + 1] = found[i]
    end
    lowest = '(' .. name
  end
until #page < size or #names >= wanted
return { answer(store), names, records }
