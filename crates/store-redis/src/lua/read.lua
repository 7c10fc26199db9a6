-- Records by name. ARGV: 1 floor, then names.

local found = redis.call('HMGET', KEYS[3], HEAD_NAME, unpack(ARGV, 2))
local store, why = current(found[1], ARGV[1])
if not store then return why end

found[1] = answer(store)
return found
