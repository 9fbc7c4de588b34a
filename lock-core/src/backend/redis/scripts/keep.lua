
-- Releases a lock but keeps the key locked for a while. For example, a job that ends early must not run again on
-- another machine. If the owner only waits, the script removes its queue entry.
--
-- KEYS     the lock, or all locks of one grant
-- ARGV     1  owner token, 48 characters
--          2  how long to keep the key, in ms
--          3  mode: `x`, `s`, `p<of>` or `p<of>x<n>`
--          4  the stored value, if the grant is not exclusive or may have been downgraded; otherwise ""
--          5  the last fencing token of this grant that its process made itself; "0": none
--          6  how long to remember that token, in ms
-- Returns  1 kept, 0 no owner holds the lock, -1 another owner holds it; for several locks the smallest of these
-- Constants  TOKEN_LEN: see lib.lua
--
-- Atomic because the lock may expire and be acquired by another owner between the read and the write. The script moves
-- the token from the beginning of the value to its end. So a delayed renewal does not find its owner and cannot extend
-- the lease, and a repeated call of this script recognizes the kept key. The owner record stays readable. The mark
-- stays too, but no release reads the mark any more.
local now = server_time()
local token, keep, own = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local value = ARGV[4] ~= '' and ARGV[4] or nil
local mark = ' kept=' .. token

local function keep_one(key)
  local lock = open(key, now)
  local foreign, refused = lock:foreign()
  if foreign or refused then
    return refused or -1
  end
  local mine = lock:mine(token, value)
  if mine then
    local kept = string.rep('0', TOKEN_LEN) .. string.sub(mine, TOKEN_LEN + 1) .. mark
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
    if own > 0 then
      raise_fence(key, own, ARGV[6])
    end
    return 1
  end
  if lock:leave(token) then
    local taken = not lock:fits(ARGV[3])
    lock:serve()
    return taken and -1 or 0
  end
  -- The key is already kept: the first answer was lost, and this is a repeated call.
  if lock:kept(token, value) then
    return 1
  end
  return lock:fits(ARGV[3]) and 0 or -1
end

local answer = 1
for _, key in ipairs(KEYS) do
  local kept = keep_one(key)
  if type(kept) == 'table' then
    return kept
  end
  answer = math.min(answer, kept)
end
return answer
