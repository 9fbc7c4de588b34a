
-- The last part of acquire.lua, for a lock that is held or that other claims wait for, and for other modes than
-- exclusive.
--
-- Constants  HANDOFF_LEN: see lib.lua
local token, value, lease, mode = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[6]
local lock = open(KEYS[1], now)
local bad = lock:look()
if bad then
  return bad
end

local fenced, last, of = ARGV[5] ~= '0', nil, nil
if fenced then
  last, of, bad = last_fence(KEYS[1])
  if bad then
    return bad
  end
end

local again = lock:granted(token, value, mode)
local won, blocked, more = again ~= nil, false, false
if again then
  lock:extend(again, lease)
else
  -- While an exclusive holder has the key, no waiter can be served. In any other case the queue is served before a new
  -- claim.
  if lock.mode ~= 'x' and lock:queued() then
    won, blocked, more = lock:serve(token, lease)
  end
  if not won and lock:clashes(mode) then
    lock:leave(token)
    return {-2, now, lock.mode}
  end
  if not won and not blocked and lock:fits(mode) then
    -- Removes an entry only if there may be one: after a script's first write, the server no longer refuses writes for
    -- lack of memory. A needless write would switch off that check.
    if lock:queued() or lock:waiters() > 0 then
      lock:leave(token)
    end
    lock:put(value, mode, lease)
    won = true
  end
end

if won then
  if not fenced then
    return {1, now, lock:waiters()}
  end
  -- A repeated request gets the token of the first answer, because that answer may have been lost.
  local fence = again and of == token and last or math.max(now, last + 1)
  store_fence(KEYS[1], fence, token, ARGV[5])
  return {1, now, lock:waiters(), fence}
end

local kept = lock:waits(token)
if ARGV[7] ~= '' then
  if kept then
    lock:stay(token, value, mode, lease)
    lock:contend(false)
  else
    local own = lock.mode == 'x' and string.sub(lock.value, 1, HANDOFF_LEN) == string.sub(token, 1, HANDOFF_LEN)
    local others = lock:waiters()
    -- Dead waiters must not fill the queue, so they are dropped before the claim is refused.
    if others >= tonumber(ARGV[7]) then
      others = lock:living()
    end
    kept = not (own and ARGV[8] == '1') and others < tonumber(ARGV[7])
    if kept then
      lock:join(token, value, mode, lease, others)
    end
  end
elseif not kept then
  lock:living()
end
local answer = lock:held(token, mode, more)
answer[8] = kept and ARGV[7] ~= '' and 1 or 0
return answer
