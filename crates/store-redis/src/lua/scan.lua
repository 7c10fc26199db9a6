-- Records in the order of their names. ARGV: 1 floor, 2 lowest, 3 highest, 4 how many.

local store, why = current(ARGV[1])
if not store then return { why } end

local answered = answer('ok', store)
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
answered[5] = names
answered[6] = {}
if #names > 0 then
  answered[6] = redis.call('HMGET', KEYS[3], unpack(names))
end
return answered
