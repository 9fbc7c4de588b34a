-- Grants a free lock on a voter whose marker has not changed since its last bootstrap. A free lock is the most frequent
-- case, so this script makes as few calls as possible. The script runs before the gate, which checks the same
-- conditions in detail and handles all other cases. A voter has no queue, so no waiter precedes this claim. Ends with
-- take.lua.
--
-- KEYS     1  the lock
-- ARGV     as in the script after the gate, and the two arguments of the gate
-- Returns  as acquire.lua, if the lock is free; otherwise the answer of the gate
-- Constants  VOTER_MARKER: see gate.lua
--
-- Atomic because the marker must belong to the same run and data as the key, and the checks must still hold when the
-- key is written.

-- The time is a text, as in acquire.lua. A voter has Redis 7, so it needs no `replicate_commands`.
local call = redis.call
local time = call('TIME')
local text = time[2]
while #text < 6 do
  text = '0' .. text
end
text = time[1] .. text
-- The answer is as short as possible: a number without a fencing token, and a text with a fencing token.
local names, waiters = nil, ARGV[5] == '0' and 0
if not waiters then
  -- The same as `names_of` in lib.lua.
  names = '{' .. KEYS[1] .. '}:'
  if string.find(KEYS[1], '}', 1, true) then
    names = (string.match(KEYS[1], '^[^{]*({[^}]+})') or '') .. names
  end
end
local till = ARGV[#ARGV - 1]
local may_take = ARGV[6] == 'x' and #text == #ARGV[4] and text <= ARGV[4]
  and (#text > #till or #text == #till and text >= till)
  and call('HGET', VOTER_MARKER, 'seal') == ARGV[#ARGV]
