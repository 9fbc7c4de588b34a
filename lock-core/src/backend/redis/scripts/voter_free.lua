-- The free lock of a voter, behind the gate and in front of the script that serves every other case: what most attempts
-- come for, so it does as little as it can. A voter has no queue, so nobody is before whoever asks.
--
-- KEYS     1  the lock
-- ARGV     as in the script behind it
-- Returns  {1, now, 0}   granted
--          or what the script behind it returns
--
-- Atomic because the gate and the write must see one state of the server.
if ARGV[6] == 'x' and ARGV[5] == '0' and now <= tonumber(ARGV[4])
  and redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  return {1, now, 0}
end

