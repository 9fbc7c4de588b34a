-- Grants free locks on a voter whose marker is unchanged since its last bootstrap: one lock to each of several owners
-- that ask at the same time. This is the most frequent case, so it takes the fewest calls: the claims share one look at
-- the time and one at the marker. They are the conditions of gate.lua, which handles every other case. A voter has no
-- queue, so no waiter comes before these claims. Only the bootstrap may load this text, as that of the gate, whose id is
-- 4f0c1b7e9a6d42c58e13d7b2605fa9c4.
--
-- KEYS     the locks, one for each claim
-- ARGV     1            deadline: server time in us; requests that arrive later were abandoned by their client
--          2            end of the quarantine, server time in us, from the bootstrap over this connection
--          3            seal of the marker, from the same bootstrap
--          2 i + 2, ..  for lock i: the value to store, which begins with the owner token; the lease in ms
-- Returns  now          all are granted; server time in us
--          {now, ..}    for each lock: 1 granted; {pttl, value} held by another owner; 0 none of the two: ask for it alone
--          0            nothing was looked at, because a condition does not hold: ask for each of them alone
-- Constants  VOTER_MARKER: see gate.lua; TOKEN_LEN, VALUE_END: see lib.lua
--
-- Atomic because the marker must be of the same run and data as the keys, and the conditions must hold when the keys are
-- written.

-- The time as a text, as in free.lua.
local call = redis.call
local time = call('TIME')
local text, till = time[2], ARGV[2]
while #text < 6 do
  text = '0' .. text
end
text = time[1] .. text
if #text ~= #ARGV[1] or text > ARGV[1] or #text < #till or #text == #till and text < till
  or call('HGET', VOTER_MARKER, 'seal') ~= ARGV[3] then
  return 0
end

local answers
for i = 1, #KEYS do
  local value = ARGV[2 * i + 2]
  if call('SET', KEYS[i], value, 'NX', 'PX', ARGV[2 * i + 3]) then
    if answers then
      answers[i + 1] = 1
    end
  else
    if not answers then
      answers = {text - 0}
      for granted = 1, i - 1 do
        answers[granted + 1] = 1
      end
    end
    local held = redis.pcall('GETRANGE', KEYS[i], '0', VALUE_END)
    -- Readers, a lock of this very owner, and other data are the business of the script for one claim.
    local other = type(held) == 'string' and held ~= ''
      and string.sub(held, 1, TOKEN_LEN) ~= string.sub(value, 1, TOKEN_LEN)
    answers[i + 1] = other and {call('PTTL', KEYS[i]), held} or 0
  end
end
return answers or text - 0
