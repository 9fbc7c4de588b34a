-- Gives a lock up but keeps the key taken for a while: a job that ends early must not run again on the next machine.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
--          2  how long to keep the key, in ms
-- Returns  1 kept, 0 nobody had it, -1 somebody else has it
--
-- Atomic because the lock may expire and be taken by another between the look and the write.
-- The token moves from the head of the value to its end: a renewal that is still on its way no longer finds its
-- owner, so it cannot prolong the wait, and this script still knows its own work when it is asked again. The owner
-- record stays readable.
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
local mark = ' kept=' .. ARGV[1]
if string.sub(held, 1, 48) == ARGV[1] then
  local kept = string.rep('0', 48) .. string.sub(held, 49) .. mark
  local written = redis.pcall('SET', KEYS[1], kept, 'PX', ARGV[2])
  if type(written) == 'table' and written.err then
    -- A server that is out of memory refuses SET and still allows this.
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 1
end
if string.sub(held, -string.len(mark)) == mark then
  return 1
end
return -1
