
-- The second part of renew.lua. It renews shared locks and permits, and stores the last fencing tokens.
--
-- Constants  TOKEN_LEN: see lib.lua
local now = others and server_time()
for _, i in ipairs(others or {}) do
  local lock, owner, lease = open(KEYS[i], now), ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  -- If the key has data of another type, this owner has no lock there. Any other error says nothing about the lock.
  local bad = lock:look()
  local mine = not bad and lock:mine(string.sub(owner, 1, TOKEN_LEN), #owner > TOKEN_LEN and owner or nil)
  answers[i] = bad and not is_other_type(bad) and bad.err or 0
  if mine then
    lock:extend(mine, lease)
    -- The renewal counts even if the number of waiters cannot be read.
    local ok, waiting = pcall(lock.waiters, lock)
    answers[i] = 1 + (ok and waiting or 0)
  end
end
for at = 2 * #KEYS + 1, #ARGV, 3 do
  local i = tonumber(ARGV[at])
  if type(answers[i]) == 'number' and answers[i] > 0 then
    raise_fence(KEYS[i], tonumber(ARGV[at + 1]), ARGV[at + 2])
  end
end
return answers
