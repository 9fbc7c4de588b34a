-- Grants a free lock on a voter whose marker is unchanged since its last bootstrap. This is the most frequent case, so
-- it takes the fewest calls. It runs before the gate, which checks the same conditions in detail and handles every
-- other case. A voter has no queue, so no waiter comes before this claim. Ends with take.lua.
--
-- KEYS     1  the lock
-- ARGV     as in the script after the gate, and the two of the gate
-- Returns  as acquire.lua, if the lock is free; otherwise what the gate returns
-- Constants  VOTER_MARKER: see gate.lua
--
-- Atomic because the marker must be of the same run and data as the key, and the checks must hold when the key is
-- written.

-- The time as a text, as in acquire.lua. A voter needs no `replicate_commands`: it has Redis 7.
local call = redis.call
local time = call('TIME')
local text = time[2]
while #text < 6 do
  text = '0' .. text
end
text = time[1] .. text
-- The shortest answer is a number without a fencing token, and a text with one.
local names, waiters = nil, ARGV[5] == '0' and 0
if not waiters then
  -- Same as `names_of` in lib.lua.
  names = '{' .. KEYS[1] .. '}:'
  if string.find(KEYS[1], '}', 1, true) then
    names = (string.match(KEYS[1], '^[^{]*({[^}]+})') or '') .. names
  end
end
local till = ARGV[#ARGV - 1]
local may_take = ARGV[6] == 'x' and #text == #ARGV[4] and text <= ARGV[4]
  and (#text > #till or #text == #till and text >= till)
  and call('HGET', VOTER_MARKER, 'seal') == ARGV[#ARGV]
