-- Frees a lock if it is its owner's and serves the next, or gives up its place in the queue. The other half of the hot
-- path, so where nobody waits it does as little as it can.
--
-- KEYS     the lock, or all locks of one grant
-- ARGV     1  owner token, 48 characters
--          and only where one of them says something:
--          2  mode: `x`, `s` or `p<of>`
--          3  the value that is stored, where the grant is not exclusive or may not be any more; else ""
--          4  the last fencing token of this grant that was numbered in its process; "0": none
--          5  how long to remember it, in ms
-- Returns  1 freed, 0 nobody had it, -1 somebody else has it; the last two also for one who left the queue. Of several
--          locks the least of these
-- Constants  CHANNEL, PROCESS_LEN, TOKEN_END, WAITER_LEASE: see lib.lua
--
-- Atomic because the lock may expire and be taken by another between the look and DEL, and because it must go to the
-- next in the queue before anybody else can see it free.
if not ARGV[2] then
  -- The token is at the very beginning or it is not ours.
  if redis.pcall('GETRANGE', KEYS[1], '0', TOKEN_END) == ARGV[1] then
    local call, names = redis.call, '{' .. KEYS[1] .. '}:'
    -- As `names_of` in the library.
    if string.find(KEYS[1], '}', 1, true) then
      names = (string.match(KEYS[1], '^[^{]*({[^}]+})') or '') .. names
    end
    -- A queue whose keys hold other data keeps nobody from giving the lock up; the rest of the script sees to that too.
    local head = redis.pcall('ZRANGE', names .. 'q', '0', '0')[1]
    if not head then
      call('DEL', KEYS[1])
      return 1
    end
    -- The usual end of a turn: the next is alive and wants the key for itself. The same as `serve` in the library,
    -- which costs as much again to define.
    local entry = redis.pcall('HGET', names .. 'w', head)
    if type(entry) == 'string' then
      if redis.replicate_commands then redis.replicate_commands() end
      local time = call('TIME')
      local till, ttl, record = string.match(entry, '^(%d+) (%d+) x (.*)$')
      if till and tonumber(till) >= math.floor((time[1] * 1000000 + time[2]) / 1000) then
        -- First what needs memory: refused, it leaves everything as it was, and the rest of the script frees the key.
        local given = redis.pcall('SET', KEYS[1], head .. ' ' .. record, 'PX', math.min(tonumber(ttl), WAITER_LEASE))
        if given.ok then
          call('ZREM', names .. 'q', head)
          call('HDEL', names .. 'w', head)
          redis.pcall('PUBLISH', CHANNEL .. string.sub(head, 1, PROCESS_LEN),
            'granted ' .. head .. ' ' .. call('HLEN', names .. 'w'))
          return 1
        end
      end
    end
  end
end

