-- Makes the store if there is none, and judges whether it may have gone back. ARGV: 1 run, 2 replication id, 3
-- whether the server was promoted, 4 whether it keeps all it acknowledges, 5 whether it has replicas, 6 highest
-- revision this client has seen (or ''), 7 a channel.

local run, replication, promoted, durable, replicated, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function is(key, wanted)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == wanted
end
if not (is(KEYS[1], 'hash') and is(KEYS[2], 'zset') and is(KEYS[3], 'hash') and is(KEYS[4], 'list')) then
  return 'foreign'
end

local needed = {
  { 'PUBLISH', ARGV[7], '' }, { 'HSET', KEYS[1], 'f', 'v' }, { 'HGET', KEYS[3], 'f' }, { 'HMGET', KEYS[3], 'f' },
  { 'HSET', KEYS[3], 'f', 'v' }, { 'HDEL', KEYS[3], 'f' }, { 'ZADD', KEYS[2], '0', 'm' }, { 'ZREM', KEYS[2], 'm' },
  { 'ZRANGEBYLEX', KEYS[2], '-', '+' }, { 'RPUSH', KEYS[4], 'm' }, { 'LPOP', KEYS[4], '1' },
}
for _, command in ipairs(needed) do
  if not redis.acl_check_cmd(unpack(command)) then return 'forbidden ' .. command[1] end
end

local was = redis.call('HMGET', KEYS[1], 'format', 'replication', 'durable', 'replicated')
if was[1] and was[1] ~= text(FORMAT) then return 'format ' .. was[1] end
local store, why = current(read_head(), '')
if not store then
  if why ~= 'missing' then return why end
  if not was[1] and redis.call('HLEN', KEYS[1]) > 0 then return 'foreign' end
  if was[1] or redis.call('HLEN', KEYS[3]) + redis.call('ZCARD', KEYS[2]) > 0 then return 'damaged' end
  if seen ~= '' then return 'missing' end
  local now = server_ms()
  -- An epoch is the millisecond in which it began: no store made later in this place repeats a revision.
  local _, listened = listened_topics()
  store = { run = run, revision = now * PER_MS, now = now, last = now, offset = 0, listened = listened }
  redis.call('HSET', KEYS[1], 'format', text(FORMAT), 'replication', replication, 'durable', durable,
    'replicated', replicated, 'epoch', text(now))
  write_head(store)
  return answer(store)
end
if not was[1] or not is_whole() then return 'damaged' end
if seen ~= '' and store.revision < tonumber(seen) then return 'behind' end

if was[4] == '1' then replicated = '1' end
local restarted = store.run ~= run
local failed_over = was[2] ~= replication and promoted == '1'
local keeps_all = was[3] == '1' and durable == '1' and replicated == '0'
if failed_over or (restarted and not keeps_all) then
  -- Nobody's run matches until an operator raises the epoch.
  if not restarted then
    store.run = ''
    write_head(store)
  end
  return 'restarted'
end
redis.call('HSET', KEYS[1], 'replication', replication, 'durable', durable, 'replicated', replicated)
if restarted then
  store.run = run
  write_head(store)
end
return answer(store)
