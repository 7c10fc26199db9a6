-- Begins a new epoch: an operator has taken note that acknowledged commits may be lost. ARGV: 1 run, 2
-- replication id, 3 whether the server keeps all it acknowledges, 4 whether it has replicas, 5 highest revision
-- this client has seen (or ''), 6 channel.

local store, why = current(read_head(), '')
if why and why ~= 'missing' then return why end
if not store then
  if redis.call('HLEN', KEYS[3]) + redis.call('ZCARD', KEYS[2]) > 0 then return 'damaged' end
  local now = server_ms()
  local _, listened = listened_topics()
  store = { revision = 0, now = now, last = now, offset = 0, listened = listened }
elseif not is_whole() then
  return 'damaged'
end

-- Above all that can have been given out and lost: also by a million revisions if this server's clock is behind its
-- predecessor's.
local MARGIN_MS = 1000
local highest = math.max(store.revision, tonumber(ARGV[5]) or 0)
local epoch = math.max(server_ms(), store.now, math.floor(highest / PER_MS) + MARGIN_MS)
store.run, store.revision, store.last = ARGV[1], epoch * PER_MS, store.now
store.offset, store.repaired = store.repaired or store.offset, nil

-- Nothing in particular: everybody looks.
redis.call('PUBLISH', ARGV[6], '')
redis.call('HSET', KEYS[1], 'format', text(FORMAT), 'replication', ARGV[2], 'durable', ARGV[3], 'replicated', ARGV[4],
  'epoch', text(epoch))
write_head(store)
return answer(store)
