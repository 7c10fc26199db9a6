-- Makes the store if there is none, and judges whether it may have gone back. ARGV: 1 run, 2 replication id, 3
-- whether the server was promoted, 4 whether it keeps all it acknowledges, 5 whether it has replicas, 6 highest
-- revision this client has seen (or ''), 7 a channel.

local run, replication, promoted, durable, replicated, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function is(key, wanted)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == wanted
end
if not (is(KEYS[1], 'hash') and is(KEYS[2], 'zset') and is(KEYS[3], 'hash')) then return { 'foreign' } end

local needed = {
  { 'PUBLISH', ARGV[7], '' }, { 'HSET', KEYS[1], 'f', 'v' }, { 'HGET', KEYS[3], 'f' }, { 'HSET', KEYS[3], 'f', 'v' },
  { 'HDEL', KEYS[3], 'f' }, { 'ZADD', KEYS[2], '0', 'm' }, { 'ZREM', KEYS[2], 'm' },
  { 'ZRANGEBYLEX', KEYS[2], '-', '+' },
}
for _, command in ipairs(needed) do
  if not redis.acl_check_cmd(unpack(command)) then return { 'forbidden', command[1] } end
end

local records, names = redis.call('HLEN', KEYS[3]), redis.call('ZCARD', KEYS[2])
local store, why = current('')
if not store then
  if why == 'newer' then return { why } end
  if redis.call('HLEN', KEYS[1]) > 0 then return { 'foreign' } end
  if records + names > 0 then return { 'damaged' } end
  if seen ~= '' then return { 'missing' } end
  local now = server_ms()
  -- An epoch is the millisecond in which it began: no store made later in this place repeats a revision.
  local revision = now * PER_MS
  redis.call('HSET', KEYS[1], 'format', FORMAT, 'run', run, 'replication', replication, 'durable', durable,
    'replicated', replicated, 'epoch', text(now), 'revision', text(revision), 'last_ms', text(now), 'offset_ms', '0')
  return { 'ok', revision, now, 0 }
end
if records ~= names then return { 'damaged' } end
if seen ~= '' and store.revision < tonumber(seen) then return answer('behind', store) end

local was = redis.call('HMGET', KEYS[1], 'replication', 'durable', 'replicated')
if was[3] == '1' then replicated = '1' end
local restarted = store.run ~= run
local failed_over = was[1] ~= replication and promoted == '1'
local keeps_all = was[2] == '1' and durable == '1' and replicated == '0'
if failed_over or (restarted and not keeps_all) then
  -- Nobody's run matches until an operator raises the epoch.
  if not restarted then redis.call('HSET', KEYS[1], 'run', '') end
  return answer('restarted', store)
end
redis.call('HSET', KEYS[1], 'run', run, 'replication', replication, 'durable', durable, 'replicated', replicated)
return answer('ok', store)
