-- Takes a forward jump of the server's clock out of the store's. ARGV: 1 the offset at which it was seen, 2 the
-- latest that it can be.

local store, why = current(read_head(), '')
if not store then return why end

local latest = math.max(tonumber(ARGV[2]), store.last)
-- Another offset: somebody else has taken it out.
if text(store.offset) == ARGV[1] and store.now > latest then
  store.offset = store.offset - (store.now - latest)
  store.now = latest
  write_head(store)
end
return answer(store)
