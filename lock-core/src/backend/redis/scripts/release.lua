-- Frees a lock if it is its owner's and serves the next, or gives up its place in the queue. The other half of the hot
-- path, so where nobody waits it does as little as it can.
--
-- KEYS     the lock, or all locks of one grant
-- ARGV     1  owner token, 48 characters
--          and only where one of them says something:
--          2  mode: `x`, `s` or `p<of>`
--          3  the value that is stored, where the mode is not exclusive; else ""
--          4  the last fencing token of this grant that was numbered in its process; "0": none
--          5  how long to remember it, in ms
-- Returns  1 freed, 0 nobody had it, -1 somebody else has it; the last two also for one who left the queue. Of several
--          locks the least of these
--
-- Atomic because the lock may expire and be taken by another between the look and DEL, and because it must go to the
-- next in the queue before anybody else can see it free.
if not ARGV[2] then
  local held = redis.pcall('GET', KEYS[1])
  -- `find` compares in place; `sub` would make a string first. The token is at the very beginning or it is not ours.
  if type(held) == 'string' and held:find(ARGV[1], 1, true) == 1
    and redis.call('EXISTS', '{' .. KEYS[1] .. '}:q') == 0 then
    redis.call('DEL', KEYS[1])
    return 1
  end
end
