-- Records that time passes, so that a clock that goes back is noticed. ARGV: 1 floor, 2 ceiling (or ''), 3 how
-- old a recorded time may be.

local store, why = current(ARGV[1])
if not store then return { why } end

local ceiling = tonumber(ARGV[2])
local passed = ceiling and math.min(store.now, ceiling) or store.now
if store.repaired then
  redis.call('HSET', KEYS[1], 'last_ms', text(store.now), 'offset_ms', text(store.repaired))
elseif passed - store.last > tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'last_ms', text(passed))
end
return answer('ok', store)
