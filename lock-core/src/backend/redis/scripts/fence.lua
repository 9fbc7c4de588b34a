
-- Makes the fencing token of a grant that was made without one.
--
-- KEYS     the lock, or all locks of one grant
-- ARGV     1  owner token, 48 characters
--          2  how long to remember the last fencing token, in ms
--          3  the holder of the token: the owner token, with `:<number>` for a later holder of the grant by hand-off
--          4  a lower limit, "0" for none: the new token is larger. The limit is the last token that the process made,
--             or one less than the token on other nodes of a Cluster
--          5  the stored value, if the grant is not exclusive or may have been downgraded; otherwise absent
-- Returns  {1, now, fence}   the lock is this owner's; fence: larger than the last token of each key
--          {0, now}          no owner has the lock
--          {-1, now}         another owner has the lock
--          with now = server time in us.
--
-- Atomic because the token must be made while this owner certainly holds the lock, and because two requests must never
-- read the same last token. A token is at least the server's time. So the tokens grow even if the last token was lost
-- by FLUSHALL, a failover or a restart without data.
local now = server_time()
local own = tonumber(ARGV[4])
local fence, same, raised = math.max(now, own + 1), nil, true
for i, key in ipairs(KEYS) do
  local lock = open(key, now)
  local bad = lock:look()
  if bad then
    return bad
  end
  if not lock:mine(ARGV[1], ARGV[5]) then
    return {lock.mode and -1 or 0, now}
  end
  local last, of, wrong = last_fence(key)
  if wrong then
    return wrong
  end
  -- A repeated request: if every key has the same token of this holder, that token is the answer.
  if i == 1 then
    same = of == ARGV[3] and last > own and last or nil
  elseif of ~= ARGV[3] or last ~= same then
    same = nil
  end
  raised = raised and of == ARGV[3] and last <= own
  -- If the server's clock was set back, the last token + 1 keeps the tokens growing.
  fence = math.max(fence, last + 1)
end
if raised then
  -- Each key already has a token of this holder that is not above `own`. The answer is the smallest token above `own`,
  -- so that the keys of the grant on other nodes get the same token.
  fence = own + 1
end
fence = same or fence
for _, key in ipairs(KEYS) do
  store_fence(key, fence, ARGV[3], ARGV[2])
end
return {1, now, fence}
