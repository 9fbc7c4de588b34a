-- Releases a lock if the owner holds it, and serves the next waiter. If the owner waits, the script removes its queue
-- entry. Half of the calls on the hot path are releases, so if no claim waits, the script only compares and deletes.
-- On request, the key stays locked for a while. For example, a job that ends early must not run again on another
-- machine.
--
-- KEYS     the lock, or all locks of one grant
-- ARGV     1  owner token, 48 characters, and a space: the beginning of the stored value while it has no mark
--          2 to 6 are absent unless the grant needs one of them:
--          2  mode: `x`, `s`, `p<of>` or `p<of>x<n>`
--          3  the stored value, if the grant is not exclusive or may have been downgraded; otherwise ""
--          4  the last fencing token of this grant that its process made itself; "0": none
--          5  how long to remember that token, in ms
--          6  how long to keep the key locked, in ms; "0": the key is freed
-- Returns  1 released or kept, 0 no owner holds the lock, -1 another owner holds it. If a queue entry was removed, the
--          answer is 0 or -1. For several locks, the answer is the smallest of these
-- Constants  CHANNEL, PROCESS_LEN, TOKEN_LEN, MARK, MARK_AT, WAITER_LEASE, WAITER_LEASE_TEXT: see lib.lua
--
-- Atomic because the lock may expire and be acquired by another owner between the read and DEL, and because the next
-- waiter must get the lock before another client can see the key free.
if not ARGV[2] then
  -- Uses `pcall`, because the last part of the script handles a key of another type.
  local held = redis.pcall('GETRANGE', KEYS[1], '0', MARK_AT)
  if held == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return 1
  end
  if held == string.sub(ARGV[1], 1, TOKEN_LEN) .. MARK then
    local call, names = redis.call, '{' .. KEYS[1] .. '}:'
    -- The same as `names_of` in lib.lua.
    if string.find(KEYS[1], '}', 1, true) then
      names = (string.match(KEYS[1], '^[^{]*({[^}]+})') or '') .. names
    end
    -- Uses `pcall`, because the owner must be able to release even if the keys of the queue have other data. The last
    -- part of the script handles such a queue, and frees the key before it raises any other error.
    local first = redis.pcall('ZRANGE', names .. 'q', '0', '0')
    local head = first[1]
    if not head and not first.err then
      -- All waiters have left the queue.
      call('DEL', KEYS[1])
      return 1
    end
    -- Usually the first waiter is alive and requests the key exclusively. For this case the code below repeats `serve`
    -- of lib.lua, because defining the library would double the cost.
    local entry = head and redis.pcall('HGET', names .. 'w', head)
    if type(entry) == 'string' then
      if redis.replicate_commands then redis.replicate_commands() end
      local time = call('TIME')
      local text = time[2]
      while #text < 6 do
        text = '0' .. text
      end
      text = time[1] .. string.sub(text, 1, 3)
      -- The times are compared as texts, because texts of equal length have the order of their numbers. A conversion
      -- would cost half as much as a `redis.call`.
      local till, ttl, at = string.match(entry, '^(%d+) (%d+) x ()')
      if till and #till == #text and till >= text then
        local others = call('HLEN', names .. 'w') - 1
        local value = head .. (others > 0 and MARK or ' ') .. string.sub(entry, at) .. ' granted=' .. text
        if ttl - WAITER_LEASE > 0 then
          ttl = WAITER_LEASE_TEXT
        end
        -- SET comes first, because only SET needs memory. If the server refuses the SET, nothing has changed yet, and
        -- the last part of the script frees the key.
        local given = redis.pcall('SET', KEYS[1], value, 'PX', ttl)
        if given.ok then
          call('ZREM', names .. 'q', head)
          call('HDEL', names .. 'w', head)
          redis.pcall('PUBLISH', CHANNEL .. string.sub(head, 1, PROCESS_LEN), 'granted ' .. head .. ' ' .. others)
          return 1
        end
      end
    end
  end
end
