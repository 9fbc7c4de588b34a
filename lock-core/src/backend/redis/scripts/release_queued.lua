
-- The second part of release.lua: the queue needs more than one step, the mode is not exclusive, several keys are
-- released, or this owner does not hold the lock.
--
-- Constants  TOKEN_LEN: see lib.lua
local now = server_time()
local token, mode, value, own = string.sub(ARGV[1], 1, TOKEN_LEN), ARGV[2] or 'x', ARGV[3], tonumber(ARGV[4] or '0')
if value == '' then
  value = nil
end

local function free(key)
  local lock = open(key, now)
  local foreign, refused = lock:foreign()
  if foreign or refused then
    return refused or -1
  end
  local mine = lock:mine(token, value)
  if mine then
    lock:remove(mine)
    lock:serve()
    if own > 0 then
      raise_fence(key, own, ARGV[5])
    end
    return 1
  end
  if lock:leave(token) then
    -- The waiters after this owner may fit along with the holders now, for example readers after a writer that left.
    local taken = not lock:fits(mode)
    lock:serve()
    return taken and -1 or 0
  end
  -- The owner has already released this lock and keeps the key taken; the first answer was lost.
  if lock:kept(token, value) then
    return 1
  end
  return lock:fits(mode) and 0 or -1
end

local answer = 1
for _, key in ipairs(KEYS) do
  local freed = free(key)
  if type(freed) == 'table' then
    return freed
  end
  answer = math.min(answer, freed)
end
return answer
