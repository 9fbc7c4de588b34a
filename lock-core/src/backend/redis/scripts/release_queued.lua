
-- The second part of release.lua. It runs if the queue needs more than one step, if the mode is not exclusive, if
-- several keys are released, if the key is kept, or if this owner does not hold the lock.
--
-- Constants  TOKEN_LEN: see lib.lua
local now = server_time()
local token, mode, value, own = string.sub(ARGV[1], 1, TOKEN_LEN), ARGV[2] or 'x', ARGV[3], tonumber(ARGV[4] or '0')
local keep = tonumber(ARGV[6] or '0')
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
    if keep > 0 then
      -- Moves the token from the beginning of the value to its end. So a delayed renewal does not find its owner and
      -- cannot extend the lease, and a repeated call of this script recognizes the kept key. The owner record stays
      -- readable. The mark stays too, but no release reads the mark any more.
      local kept = string.rep('0', TOKEN_LEN) .. string.sub(mine, TOKEN_LEN + 1) .. ' kept=' .. token
      if lock.mode == 'x' then
        local written = redis.pcall('SET', key, kept, 'PX', keep)
        if written.err then
          if not string.find(written.err, 'OOM', 1, true) then
            return written
          end
          -- A server without free memory refuses SET but allows PEXPIRE.
          redis.call('PEXPIRE', key, keep)
        end
      else
        -- ZREM comes first: a server without free memory allows ZREM, and then also the later writes of the script.
        local permits = lock:take_out(mine)
        lock:put(kept, permits > 1 and lock.mode .. 'x' .. permits or lock.mode, keep)
        lock:shrink()
      end
    else
      lock:remove(mine)
      lock:serve()
    end
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
