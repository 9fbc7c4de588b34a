
-- The second part of acquire.lua, and of free.lua of the voters. It acquires the key if no owner holds it, and makes
-- the requested fencing token. This part is the hot path of `.fencing(true)`. So in the usual case it matches no
-- pattern, formats no number, defines no function and makes only two calls.
--
-- Uses     call: `redis.call`; text: server time in us, 16 digits; names: prefix of the helper keys, may be nil without
--          a fencing token; may_take: whether the key may be acquired; waiters: the number of waiters, false if not
--          counted
-- Constants  FENCE_LEN: length of `<fencing token> <owner token>`
if may_take and call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  if ARGV[5] == '0' then
    return waiters and text - 0 or {1, text - 0, waiters}
  end
  local fence_key = names .. 'f'
  local last = redis.pcall('SET', fence_key, text .. ' ' .. ARGV[1], 'PX', ARGV[5], 'GET')
  -- Usually the server remembers no token, or an earlier token. `last` and `text` begin with 16 digits, so the texts
  -- compare like their numbers.
  if not last or #last == FENCE_LEN and last < text then
    return waiters and {1, text - 0, waiters, text - 0} or text
  end
  if last.err then
    call('DEL', KEYS[1])
    return last
  end
  local number = string.match(last, '^(%d+) %S+$')
  if not number then
    -- The key contained other data, so the script restores the data. Their expiry is lost.
    call('SET', fence_key, last)
    call('DEL', KEYS[1])
    return redis.error_reply('WRONGTYPE ' .. fence_key .. ' is no fencing token')
  end
  local fence = text - 0
  if number - fence >= 0 then
    -- The server's clock was set back, so the last token + 1 keeps the tokens growing. Uses `%.0f`, because Lua's own
    -- conversion keeps only 14 of the 16 digits.
    fence = number + 1
    call('SET', fence_key, string.format('%.0f', fence) .. ' ' .. ARGV[1], 'PX', ARGV[5])
  end
  return {1, text - 0, waiters, fence}
end
