
-- Grants an exclusive lock on several keys: all or none. Some of the keys may already be this owner's.
--
-- KEYS     the locks
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
--          4  deadline: server time in us; a request that arrives later was abandoned by its client and must do nothing
--          5  how long to remember the last fencing token, in ms; "0": the claim needs no fencing token
-- Returns  {1, now, waiters[, fence]}                granted; fence: larger than the last token of each key
--          {0, now, pttl, holder, others, -1, own, number of the key}   held: describes the first key that is held
--          {-1, now}                                 the deadline has passed
--          {-2, now, mode, number of the key}        a key is in use in an incompatible mode
--          with now = server time in us.
--
-- Atomic because no other claim may acquire one of the keys between the read and the write, and because the owner must
-- never hold only some of the keys. Waiters for a single key are served first.
local now = server_time()
if now > tonumber(ARGV[4]) then
  return {-1, now}
end
local token, value, lease, fenced = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[5] ~= '0'
local locks, fence, same = {}, now, nil
for i, key in ipairs(KEYS) do
  local lock = open(key, now)
  local bad = lock:look()
  if bad then
    return bad
  end
  if fenced then
    local last, of, wrong = last_fence(key)
    if wrong then
      return wrong
    end
    -- A repeated request: if every key has the same token of this owner, that token is the answer.
    if i == 1 then
      same = of == token and last or nil
    elseif of ~= token or last ~= same then
      same = nil
    end
    fence = math.max(fence, last + 1)
  end
  locks[i] = lock
end
-- Checks every key before this claim acquires the first key. Serving a queue also writes, but only for its waiters.
for i, lock in ipairs(locks) do
  if not lock:granted(token, value, 'x') then
    local won, blocked, more = false, false, false
    if lock.mode ~= 'x' and lock:queued() then
      won, blocked, more = lock:serve(token, lease)
    end
    if lock:clashes('x') then
      return {-2, now, lock.mode, i}
    end
    if not won and (blocked or lock.mode) then
      lock:living()
      local answer = lock:held(token, 'x', more)
      answer[8] = i
      return answer
    end
  end
end

local waiters = 0
for _, lock in ipairs(locks) do
  local again = lock:granted(token, value, 'x')
  if again then
    lock:extend(again, lease)
  else
    -- Removes an entry only if there may be one: after a script's first write, the server no longer refuses writes for
    -- lack of memory. A needless write would switch off that check.
    if lock:queued() or lock:waiters() > 0 then
      lock:leave(token)
    end
    lock:put(value, 'x', lease)
  end
  waiters = waiters + lock:waiters()
end
if not fenced then
  return {1, now, waiters}
end
fence = same or fence
for _, key in ipairs(KEYS) do
  store_fence(key, fence, token, ARGV[5])
end
return {1, now, waiters, fence}
