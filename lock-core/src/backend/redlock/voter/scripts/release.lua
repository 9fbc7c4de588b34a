-- Frees locks of a voter, each for the owner that holds it: the counterpart of grant.lua. A voter has no queue, so there
-- is no waiter to serve and no queue entry to remove.
--
-- KEYS     the locks
-- ARGV     for each lock: the owner token, 48 characters, and a space: the beginning of the stored value
-- Returns  1     all are freed
--          {..}  for each lock: 1 freed; 0 nobody holds it; -1 somebody else holds it; 2 none of these: release it alone
-- Constants  MARK_AT, TOKEN_LEN: see lib.lua
--
-- Atomic because a lock may expire and be acquired by another owner between the look and DEL.
local mine, answers = {}, {}
for i = 1, #KEYS do
  local held = redis.pcall('GETRANGE', KEYS[i], '0', MARK_AT)
  if held == ARGV[i] then
    mine[#mine + 1], answers[i] = KEYS[i], 1
  elseif held == '' and redis.call('EXISTS', KEYS[i]) == 0 then
    answers[i] = 0
  else
    -- Readers and other data are no string. A lock that its owner keeps taken begins with zeros instead of a token, and
    -- may be this owner's (keep.lua). A client of another kind may have marked this owner's lock, and waits for it.
    if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
      return held
    end
    local token = type(held) == 'string' and string.sub(held, 1, TOKEN_LEN)
    local other = token and token ~= string.sub(ARGV[i], 1, TOKEN_LEN) and token ~= string.rep('0', TOKEN_LEN)
    answers[i] = other and -1 or 2
  end
end
if #mine > 0 then
  redis.call('DEL', unpack(mine))
end
return #mine == #KEYS and 1 or answers
