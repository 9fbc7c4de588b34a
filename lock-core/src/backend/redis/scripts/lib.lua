-- The library of the scripts: holders, waiters and the order of service. Its text is placed before the part of a script
-- that needs the library. The parts for a free lock come earlier, so they run without defining these functions.
--
-- The library derives the names of the helper keys from the key of the lock, because this is cheaper than sending the
-- names. On a Cluster, the client also sends the names. If the key has a hash tag, the names begin with that tag, so
-- that all keys are in one slot: `{tag}{..{tag}..}:q`.
--
-- `{key}:q`  sorted set: owner token of a waiter -> ticket, the order of arrival
-- `{key}:w`  hash: owner token of a waiter -> `<deadline ms> <ttl ms> <mode> <owner record>`; a waiter is dead once its
--            deadline has passed
-- `{key}:f`  string: `<last fencing token> <its holder>`
-- The byte after the token of an exclusive holder is a space. If a claim is queued, the byte becomes the mark. A
-- release reads the queue only if the mark is set. If all waiters have gone, the mark costs one needless read.
-- The modes are `x` (exclusive), `s` (shared) and `p<of>` (one of `of` permits). A claim for n permits at once has the
-- mode `p<of>x<n>`, and its holder the mode `p<of>`. Such a grant has n members: its value, and `<value> +2` to
-- `<value> +<n>`. Each member is one permit. The members are added and removed together, and they expire together.
--
-- Constants  CHANNEL, PROCESS_LEN, TOKEN_LEN, HANDOFF_LEN, VALUE_LEN, VALUE_END, MARK, MARK_AT, WAITER_LEASE,
--            QUEUE_TTL: the names are replaced by values before a script is loaded, see constants.rs; lengths are in
--            bytes, times in ms

-- Returns the server's time in us.
local function server_time()
  -- Before Redis 7, a script may write after TIME only if it replicates its effects instead of its text.
  if redis.replicate_commands then redis.replicate_commands() end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns the prefix of the helper keys of a lock.
local function names_of(key)
  local names = '{' .. key .. '}:'
  if string.find(key, '}', 1, true) then
    return (string.match(key, '^[^{]*({[^}]+})') or '') .. names
  end
  return names
end

-- Publishes a message to the process of an owner. A message is only a hint. The function uses `pcall`, because the
-- script must not fail if the server or an access rule refuses the message.
local function tell(owner, message)
  redis.pcall('PUBLISH', CHANNEL .. string.sub(owner, 1, PROCESS_LEN), message)
end

-- Returns the last fencing token of a key and the holder of that token, or an error as the third value.
local function last_fence(key)
  local last = redis.call('GET', names_of(key) .. 'f')
  if not last then
    return 0, ''
  end
  local number, of = string.match(last, '^(%d+) (%S+)$')
  if not number then
    return nil, nil, redis.error_reply('WRONGTYPE ' .. names_of(key) .. 'f is no fencing token')
  end
  return tonumber(number), of
end

-- Stores the last fencing token of a key. Uses `%.0f`, because Lua's own conversion keeps only 14 of the 16 digits.
local function store_fence(key, number, of, ttl)
  redis.call('SET', names_of(key) .. 'f', string.format('%.0f', number) .. ' ' .. of, 'PX', ttl)
end

-- Raises the last fencing token to `number`, which the holder's process made. The token is remembered for `ttl` ms from
-- now. Errors are ignored, because this record is needed only if the server's clock is set back.
local function raise_fence(key, number, ttl)
  local ok, last, _, bad = pcall(last_fence, key)
  if not ok or bad then
    return
  end
  if last < number then
    pcall(store_fence, key, number, '-', ttl)
  elseif last > 0 then
    redis.pcall('PEXPIRE', names_of(key) .. 'f', ttl)
  end
end

-- Returns whether a command failed because the key has data of another type. Any other failure, such as a missing
-- right, says nothing about the key.
local function is_other_type(failed)
  return string.find(failed.err, 'WRONGTYPE', 1, true)
end

-- Returns the error for a key with data of another kind: a special one for a lock of Redisson, otherwise `bad`, the
-- error of the server. A lock of Redisson is a hash with a field for each thread of a client.
local function strange(key, bad)
  local size = redis.pcall('HLEN', key)
  if type(size) == 'number' and size <= 100 then
    for _, field in ipairs(redis.call('HGETALL', key)) do
      if string.find(field, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+') then
        return redis.error_reply('WRONGTYPE a lock of Redisson')
      end
    end
  end
  return bad
end

-- Returns a stored value without the mark, as its owner wrote the value. The public id of a grant is derived from this
-- form, because the id must not change when a claim begins to wait.
local function unmarked(value)
  local _, at = string.find(value, '^[0-9a-f]+' .. MARK)
  if at == TOKEN_LEN + 1 then
    return string.sub(value, 1, TOKEN_LEN) .. ' ' .. string.sub(value, at + 1)
  end
  return value
end

-- Returns the string at a key without the mark, and the public id of its grant. The id is the SHA-1 of that string
-- without ` granted=..`, because a downgrade drops that part. If the string is too long for a lock, the function reads
-- only its beginning, and the id is the SHA-1 of the length and that beginning. If the key has no string, the function
-- returns nil and a boolean: true if the key has data of another type, false if the key does not exist.
local function peek(key)
  local length = redis.pcall('STRLEN', key)
  if type(length) ~= 'number' then
    if not is_other_type(length) then
      -- Raises the error again, because a key that the user may not read must not count as a free lock.
      redis.call('STRLEN', key)
    end
    return nil, true
  end
  if length > VALUE_LEN then
    local value = unmarked(redis.call('GETRANGE', key, '0', VALUE_END))
    return value, redis.sha1hex(length .. value)
  end
  local value = redis.call('GET', key)
  if not value then
    return nil, false
  end
  value = unmarked(value)
  return value, redis.sha1hex((string.gsub(value, ' granted=%d+', '')))
end

-- Runs a command on a queue. If the key of the queue has data of another type, returns nil as for an empty queue,
-- because such data must not prevent the release or the listing of a lock. A claim that queues gets the error from
-- `join`.
local function on_queue(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    if is_other_type(answer) then
      return nil
    end
    return redis.call(...)
  end
  return answer
end

-- The maximum number of waiters that one pass over a queue examines, so that a script never blocks the server for long.
local LIMIT = 100

-- The operations on one lock. The operations are defined once for all locks of a script, because defining them costs as
-- much as a command.
local Lock = {}
Lock.__index = Lock

-- Returns a lock at the time `now` (us). `look` sets three fields of the lock: its `mode` (nil: free; `latch`: a latch
-- instead of a lock), the `value` of an exclusive holder, and the `count` of shared holders or permits.
local function open(key, now)
  local names = names_of(key)
  local lock = {key = key, queue = names .. 'q', waiting = names .. 'w', now = now, ms = math.floor(now / 1000)}
  return setmetatable(lock, Lock)
end

-- Reads the holders. Drops shared holders with an expired lease: they remain in the set while other holders keep the
-- key alive. Returns an error if the key has other data.
function Lock.look(lock)
  local held = redis.pcall('GETRANGE', lock.key, '0', VALUE_END)
  if type(held) ~= 'table' then
    -- GETRANGE returns '' for a missing key and for an empty string. An empty string is a lock of another program.
    if held ~= '' or redis.call('EXISTS', lock.key) == 1 then
      lock.mode, lock.value = 'x', held
    end
    return nil
  end
  if not is_other_type(held) then
    return held
  end
  local last = redis.pcall('ZRANGE', lock.key, '-1', '-1')
  if last.err then
    local count = is_other_type(last) and redis.pcall('HEXISTS', lock.key, 'count') or last
    if count == 1 then
      lock.mode = 'latch'
      return nil
    end
    return count == 0 and strange(lock.key, last) or type(count) == 'table' and count or last
  end
  if last[1] == 'mode shared' then
    lock.mode = 's'
  else
    local of = string.match(last[1], '^mode permit (%d+)$')
    if not of then
      return held
    end
    lock.mode = 'p' .. of
  end
  -- The set is written only if a holder has expired. After a script's first write, the server no longer refuses writes
  -- for lack of memory. So a needless first write would switch off that check.
  if tonumber(redis.call('ZRANGE', lock.key, '0', '0', 'WITHSCORES')[2]) <= lock.ms then
    redis.call('ZREMRANGEBYSCORE', lock.key, '-inf', lock.ms)
  end
  lock.count = redis.call('ZCARD', lock.key) - 1
  lock:ended()
  return nil
end

-- Does the same as `look`, for a script that releases. Returns whether the key has data of another program. Returns any
-- other error as the second value; the script must return that error, so that the caller retries.
function Lock.foreign(lock)
  local bad = lock:look()
  if bad and not is_other_type(bad) then
    return false, bad
  end
  return bad ~= nil, nil
end

-- Deletes the key when its last shared holder is gone. The member for the mode must not keep the key alive.
function Lock.ended(lock)
  if lock.count == 0 then
    redis.call('DEL', lock.key)
    lock.mode, lock.count = nil, nil
  end
end

-- Returns the stored value of this owner if it is a holder. `value` is the whole value, which is needed to find the
-- owner among several holders. An exclusive owner that has requested a downgrade also passes `value`: it may be a
-- shared holder by now, because the answer may have been lost.
function Lock.mine(lock, token, value)
  if not lock.mode or lock.mode == 'latch' then
    return nil
  end
  if lock.mode == 'x' then
    return string.find(lock.value, token, 1, true) == 1 and lock.value or nil
  end
  return value and redis.call('ZSCORE', lock.key, value) and value or nil
end

-- Returns the mode of the holders that a claim of this mode would join, and the number of permits that the claim needs.
local function parts(mode)
  local base, permits = string.match(mode, '^(p%d+)x(%d+)$')
  return base or mode, tonumber(permits or 1)
end

-- Calls `each` with the second and every further member of a grant. Stops when `each` returns false, because that
-- member does not exist. Returns the number of members, including the first one.
function Lock.members(lock, member, each)
  local count = 1
  while #lock.mode > 1 and each(member .. ' +' .. (count + 1)) do
    count = count + 1
  end
  return count
end

-- Returns whether the owner has released the lock in such a way that the key stays locked.
function Lock.kept(lock, token, value)
  local mark = ' kept=' .. token
  if lock.mode == 'x' then
    return string.sub(lock.value, -#mark) == mark
  end
  if not value or not lock.mode or lock.mode == 'latch' then
    return false
  end
  return redis.call('ZSCORE', lock.key, string.rep('0', #token) .. string.sub(value, #token + 1) .. mark) and true
end

-- Returns the stored value of this owner if its grant is enough for a claim of this mode. A shared grant is not enough
-- for an exclusive claim.
function Lock.granted(lock, token, value, mode)
  if mode == 'x' and lock.mode ~= 'x' then
    return nil
  end
  return lock:mine(token, value)
end

-- Extends the lease of this owner, and never shortens it. Always writes, even if nothing changes: the command WAIT
-- confirms only writes of its own connection, and the grant may have been made over another connection.
function Lock.extend(lock, member, lease)
  local left = redis.call('PTTL', lock.key)
  if lock.mode == 'x' then
    redis.call('PEXPIRE', lock.key, math.max(left, lease))
    return
  end
  local till = lock.ms + 1 + lease
  -- PEXPIRE comes first, because it needs no memory. After PEXPIRE, the server does not refuse the ZADD for lack of
  -- memory.
  redis.call('PEXPIRE', lock.key, math.max(left, lease + 2))
  if tonumber(redis.call('ZSCORE', lock.key, member)) < till then
    redis.call('ZADD', lock.key, 'XX', till, member)
    lock:members(member, function(more)
      return redis.call('ZSCORE', lock.key, more) and redis.call('ZADD', lock.key, 'XX', till, more)
    end)
  end
end

-- Removes this owner from the holders.
function Lock.remove(lock, member)
  if lock.mode == 'x' then
    redis.call('DEL', lock.key)
    lock.mode, lock.value = nil, nil
  else
    lock:take_out(member)
    lock:ended()
    lock:shrink()
  end
end

-- Removes the members of a grant from the set, and returns their number.
function Lock.take_out(lock, member)
  redis.call('ZREM', lock.key, member)
  local permits = lock:members(member, function(more)
    return redis.call('ZREM', lock.key, more) == 1
  end)
  lock.count = lock.count - permits
  return permits
end

-- Sets the key to expire 2 ms after the longest lease of its holders, because their scores were rounded up. The key
-- must not expire earlier, because only its existence keeps clients of other languages out.
function Lock.shrink(lock)
  if lock.mode and lock.mode ~= 'x' then
    local longest = tonumber(redis.call('ZRANGE', lock.key, '-2', '-2', 'WITHSCORES')[2])
    redis.call('PEXPIRE', lock.key, longest - lock.ms + 2)
  end
end

-- Returns whether a claim of this mode can be granted along with the present holders.
function Lock.fits(lock, mode)
  if not lock.mode then
    return true
  end
  local base, permits = parts(mode)
  if mode == 'x' or base ~= lock.mode then
    return false
  end
  return mode == 's' or lock.count + permits <= tonumber(string.sub(base, 2))
end

-- Returns whether the mode of a claim is incompatible with the mode of the holders, so that waiting would not help.
function Lock.clashes(lock, mode)
  return lock.mode and lock.mode ~= parts(mode) and (#lock.mode > 1 or #mode > 1)
end

-- Adds `value` to the holders. The caller has checked that the claim fits.
function Lock.put(lock, value, mode, lease)
  if mode == 'x' then
    redis.call('SET', lock.key, value, 'PX', lease)
    lock.mode, lock.value = 'x', value
    return
  end
  local base, permits = parts(mode)
  if not lock.mode then
    local marker = base == 's' and 'mode shared' or 'mode permit ' .. string.sub(base, 2)
    redis.call('ZADD', lock.key, '+inf', marker)
    lock.mode, lock.count = base, 0
  end
  local till = lock.ms + 1 + lease
  redis.call('ZADD', lock.key, till, value)
  -- The server never refuses these writes for lack of memory, because the script has already written.
  for number = 2, permits do
    redis.call('ZADD', lock.key, till, value .. ' +' .. number)
  end
  lock.count = lock.count + permits
  if redis.call('PTTL', lock.key) < lease + 2 then
    redis.call('PEXPIRE', lock.key, lease + 2)
  end
end

function Lock.queued(lock)
  return redis.call('EXISTS', lock.queue) == 1
end

-- Returns the number of waiters, including dead waiters.
function Lock.waiters(lock)
  return on_queue('HLEN', lock.waiting) or 0
end

-- Drops the waiters between the positions `first` and `last` whose deadline has passed, and returns their number. For a
-- free lock this is not needed, because `serve` drops dead waiters. For a held lock, dead waiters would be counted.
function Lock.sweep(lock, first, last)
  local tokens = redis.call('ZRANGE', lock.queue, first, last)
  if #tokens == 0 then
    return 0
  end
  local dead = {}
  for _, token in ipairs(tokens) do
    local till = string.match(redis.call('HGET', lock.waiting, token) or '', '^%d+')
    if not till or tonumber(till) < lock.ms then
      dead[#dead + 1] = token
    end
  end
  if #dead > 0 then
    redis.call('ZREM', lock.queue, unpack(dead))
    redis.call('HDEL', lock.waiting, unpack(dead))
  end
  return #dead
end

-- Returns the number of living waiters, for a claim that is not queued. If the first waiter is alive, no other waiter
-- is checked, because each heartbeat of a living waiter drops its dead neighbours.
function Lock.living(lock)
  local others = lock:waiters()
  if others > 0 and lock:sweep(0, 0) > 0 then
    for _ = 1, 10 do
      if lock:sweep(0, LIMIT - 1) < LIMIT then
        break
      end
    end
    others = lock:waiters()
  end
  return others
end

-- Drops the dead neighbours of a waiter that has just sent a heartbeat. If at least one waiter lives, its heartbeats
-- drop all dead waiters, starting with the nearest. If no waiter lives, the first waiter is dead, and `living` drops
-- all of them.
function Lock.tidy(lock, token)
  local place = redis.call('ZRANK', lock.queue, token)
  if place and lock:sweep(math.max(place - 1, 0), place + 1) > 0 then
    lock:sweep(math.max(place - LIMIT, 0), place + LIMIT)
  end
end

-- Returns whether the owner is queued. The owner must have an entry in both keys.
function Lock.waits(lock, token)
  return redis.call('ZSCORE', lock.queue, token) and redis.call('HEXISTS', lock.waiting, token) == 1
end

-- Removes the owner's queue entry from both keys, so that the owner is never served later. Returns whether there was an
-- entry.
function Lock.leave(lock, token)
  local queued = on_queue('ZREM', lock.queue, token) or 0
  return queued + (on_queue('HDEL', lock.waiting, token) or 0) > 0
end

-- Writes the entry of a waiter in `w`, with a new deadline.
function Lock.note(lock, token, value, mode, ttl)
  local till = string.format('%.0f', lock.ms + 1 + math.min(ttl, WAITER_LEASE))
  local record = string.sub(value, TOKEN_LEN + 2)
  -- A client may send the value with the time of an immediate grant. This claim waits instead, so the time is removed.
  local at = string.find(record, ' granted=', 1, true)
  record = at and string.sub(record, 1, at - 1) or record
  redis.call('HSET', lock.waiting, token, till .. ' ' .. ttl .. ' ' .. mode .. ' ' .. record)
end

-- Extends both keys of the queue by the same time. If only one key expired, the other key would contain waiters that
-- are not queued.
function Lock.prolong(lock)
  redis.call('PEXPIRE', lock.queue, QUEUE_TTL)
  redis.call('PEXPIRE', lock.waiting, QUEUE_TTL)
end

-- Records a heartbeat of a waiter in the queue.
function Lock.stay(lock, token, value, mode, ttl)
  lock:note(token, value, mode, ttl)
  lock:prolong()
end

-- Queues a claim behind all others, even if the clock was set back. `others` is the number of waiters. If a key of the
-- queue has another type, the read or the first write fails, so that no incomplete entry remains.
function Lock.join(lock, token, value, mode, ttl, others)
  local last = redis.call('ZREVRANGE', lock.queue, '0', '0', 'WITHSCORES')[2]
  local ticket = last and math.max(tonumber(last) + 1, lock.now) or lock.now
  lock:note(token, value, mode, ttl)
  redis.call('ZADD', lock.queue, 'NX', string.format('%.0f', ticket), token)
  lock:prolong()
  lock:contend(others == 0)
end

-- Notifies an exclusive holder of this library that a claim is queued, by the mark and by a message. Because of the
-- mark, the release serves the queue. Because of the message, the holder's process ends the local hand-offs. `first`
-- means that no other claim is queued. Then the message is sent even if the mark is set, because the process may have
-- forgotten earlier waiters. A value of another library is not changed.
function Lock.contend(lock, first)
  if lock.mode ~= 'x' then
    return
  end
  local mark = string.sub(lock.value, TOKEN_LEN + 1, TOKEN_LEN + 1)
  if mark ~= ' ' and not (mark == MARK and first) then
    return
  end
  local _, digits = string.find(lock.value, '^[0-9a-f]+')
  if digits == TOKEN_LEN then
    if mark == ' ' then
      redis.call('SETRANGE', lock.key, MARK_AT, MARK)
    end
    -- Only a process with local hand-offs (digit 0 here) reacts to this message.
    if string.sub(lock.value, HANDOFF_LEN, HANDOFF_LEN) == '0' then
      tell(lock.value, 'contended ' .. lock.key)
    end
  end
end

-- Serves the waiters at the head of the queue that fit along with the holders, and drops dead waiters among them.
-- Returns three values: whether `me` was served; whether a waiter remains that precedes any new claim; and whether the
-- function stopped at LIMIT before the end. If `me` is served, it gets the lease `lease`, and the answer of the script
-- instead of a message.
function Lock.serve(lock, me, lease)
  local won, done = false, 0
  while done < LIMIT do
    local head = (on_queue('ZRANGE', lock.queue, '0', '0') or {})[1]
    local entry = head and on_queue('HGET', lock.waiting, head)
    if entry == nil then
      return won, false, false
    end
    local till, ttl, mode, record
    if entry then
      till, ttl, mode, record = string.match(entry, '^(%d+) (%d+) (%w+) (.*)$')
    end
    local alive = till and tonumber(till) >= lock.ms
    -- If the first waiter does not fit, no later waiter is served: otherwise readers could keep a writer waiting
    -- forever.
    if alive and not lock:fits(mode) then
      return won, true, false
    end
    lock:leave(head)
    done = done + 1
    if alive then
      local others = lock:waiters()
      -- If others wait, an exclusive holder starts with the mark.
      local value = head .. (mode == 'x' and others > 0 and MARK or ' ') .. record
      if mode == 'x' then
        -- The time is for operators. Only exclusive holders have a time: the scripts find any other holder by its whole
        -- value, which must not change.
        value = value .. ' granted=' .. string.format('%.0f', lock.ms)
      end
      if head == me then
        lock:put(value, mode, lease)
        won = true
      else
        -- The lease is short, so that a waiter that has died meanwhile does not block the key for long. The first
        -- renewal extends the lease to the full ttl.
        lock:put(value, mode, math.min(tonumber(ttl), WAITER_LEASE))
        tell(head, 'granted ' .. head .. ' ' .. others)
      end
    end
  end
  return won, true, true
end

-- Returns the answer to a claim that must wait: `{0, now, pttl, holder, other waiters, position or -1, own}`.
function Lock.held(lock, token, mode, more)
  local left, holder, own = 0, '', 0
  if lock.mode == 'x' then
    left, holder = redis.call('PTTL', lock.key), lock.value
    own = string.sub(holder, 1, HANDOFF_LEN) == string.sub(token, 1, HANDOFF_LEN) and 1 or 0
  elseif lock.mode == 'latch' then
    left = redis.call('PTTL', lock.key)
  elseif lock.mode then
    -- A claim for a permit can be granted when the first permit expires. An exclusive claim waits for the end of the
    -- last reader's lease, and so does a reader that is queued behind an exclusive claim.
    local at = #lock.mode > 1 and 0 or -2
    local member = redis.call('ZRANGE', lock.key, at, at, 'WITHSCORES')
    left, holder = math.max(tonumber(member[2]) - lock.ms - 1, 0), member[1]
  end
  local place = redis.call('ZRANK', lock.queue, token)
  local others = lock:waiters()
  if place then
    others = math.max(others - 1, 0)
  end
  return {0, lock.now, more and 0 or left, holder, others, place or -1, own}
end
