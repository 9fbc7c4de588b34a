-- Grants a free lock on a voter whose marker is unchanged since its last bootstrap. This is the most frequent case, so
-- it takes the fewest calls. It runs before the gate, which checks the same conditions in detail and handles every
-- other case. A voter has no queue, so no waiter comes before this claim.
--
-- KEYS     1  the lock
-- ARGV     as in the script after the gate, and the two of the gate
-- Returns  now   granted; server time in us
--          or what the gate returns
-- Constants  VOTER_MARKER: see gate.lua
--
-- Atomic because the marker must be of the same run and data as the key, and the checks must hold when the key is
-- written.

-- Before Redis 7, a script that asks for the time must say that its effects are replicated, not its text.
if redis.replicate_commands then redis.replicate_commands() end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[6] == 'x' and ARGV[5] == '0' and now <= tonumber(ARGV[4]) and now >= tonumber(ARGV[#ARGV - 1])
  and redis.call('HGET', VOTER_MARKER, 'seal') == ARGV[#ARGV]
  and redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  return now
end

