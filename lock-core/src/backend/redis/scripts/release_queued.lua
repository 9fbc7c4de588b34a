
-- The second part of release.lua. It runs if the queue needs more than one step, if the mode is not exclusive, if
-- several keys are released, or if this owner does not hold the lock.
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
    -- Waiters behind this owner may now fit along with the holders, for example readers behind a writer that gave up.
    local taken = not lock:fits(mode)
    lock:serve()
    return taken and -1 or 0
  end
  -- The first answer was lost: this owner has already released the lock, and its key stays locked.
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
