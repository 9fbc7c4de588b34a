
-- The rest of release.lua: somebody waits, the mode is not exclusive, or it is not this owner's lock.
local now = server_time()
local token, mode, value, own = ARGV[1], ARGV[2] or 'x', ARGV[3], tonumber(ARGV[4] or '0')
if value == '' then
  value = nil
end

local function free(key)
  local lock = open(key, now)
  if lock:foreign() then
    return -1
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
    -- Those behind may fit beside the holders, readers behind a writer for one.
    local taken = not lock:fits(mode)
    lock:serve()
    return taken and -1 or 0
  end
  -- Kept by this owner and released once more, because the first answer was lost.
  if lock:kept(token, value) then
    return 1
  end
  return lock:fits(mode) and 0 or -1
end

local answer = 1
for _, key in ipairs(KEYS) do
  answer = math.min(answer, free(key))
end
return answer
