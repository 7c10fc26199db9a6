-- Records by name. ARGV: 1 floor, then names.

local store, why = current(ARGV[1])
if not store then return { why } end

local answered = answer('ok', store)
answered[5] = {}
if #ARGV > 1 then
  answered[5] = redis.call('HMGET', KEYS[3], unpack(ARGV, 2))
end
return answered
