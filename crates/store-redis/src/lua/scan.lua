-- Records in the order of their names. ARGV: 1 floor, 2 lowest, 3 highest, 4 how many.

local store, why = current(read_head(), ARGV[1])
if not store then return why end
if not is_whole() then return 'damaged' end

local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
return { answer(store), names, #names > 0 and redis.call('HMGET', KEYS[3], unpack(names)) or {} }
