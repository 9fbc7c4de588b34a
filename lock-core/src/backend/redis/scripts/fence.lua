
-- Makes the fencing token of a grant that did not bring one.
--
-- KEYS     the lock, or all locks of one grant
-- ARGV     1  owner token, 48 characters
--          2  how long to remember the last fencing token, in ms
--          3  whose it is: the owner token, with `:<turn>` for a later turn of the same grant
--          4  the last token of this grant that was numbered in its process, or one less than that of its keys on other
--             nodes of a Cluster; "0": none
--          5  the value that is stored, where the grant is not exclusive or may not be any more; else nothing
-- Returns  {1, now, fence}   the lock is this owner's; fence: larger than the last of each key
--          {0, now}          nobody has the lock
--          {-1, now}         somebody else has it
--          with now = server time in us.
--
-- Atomic because the number must be made while the lock is provably this owner's, and because two of them must never
-- read the same last number. The server's time as the lower bound keeps the numbers growing when the last one is
-- gone: after FLUSHALL, a failover or a restart without data.
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
  if i == 1 then
    same = of == ARGV[3] and last > own and last or nil
  elseif of ~= ARGV[3] or last ~= same then
    same = nil
  end
  raised = raised and of == ARGV[3] and last <= own
  -- Where the server's clock was set back, the order of the tokens comes from the last one.
  fence = math.max(fence, last + 1)
end
if raised then
  -- It has a number for the key already: no more than what is asked for, so that all keys of the grant have the same.
  fence = own + 1
end
fence = same or fence
for _, key in ipairs(KEYS) do
  store_fence(key, fence, ARGV[3], ARGV[2])
end
return {1, now, fence}
