-- Records that time passes, so that a clock that goes back is noticed, and says what is listened to. ARGV: 1 floor,
-- 2 ceiling (or ''), 3 how old a recorded time may be.

local store, why = current(read_head(), ARGV[1])
if not store then return why end

local ceiling = tonumber(ARGV[2])
local passed = ceiling and math.min(store.now, ceiling) or store.now
if store.repaired then
  store.last, store.offset = store.now, store.repaired
  write_head(store)
elseif passed - store.last > tonumber(ARGV[3]) then
  store.last = passed
  write_head(store)
end
return { answer(store), store.listened }
