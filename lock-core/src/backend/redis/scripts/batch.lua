-- Releases and acquires many locks in one call: each release that finds nobody waiting, and the plain SET of each new
-- owner, with the fencing token that it asks for. A lock that needs more is left as it is, and its owner asks by itself.
--
-- KEYS     the locks: those to release, those to acquire, those to acquire with a fencing token, which have no `}`. A
--          lock may be there more than once
-- ARGV     1  the number of locks to release
--          2  the number of locks to acquire without a fencing token
--          3  deadline of the acquires: server time in us. Later, an owner has given up, and none is executed
--          then, for each lock to release: owner token, 48 characters, and a space: the beginning of the stored value
--          while it has no mark
--          then, for each lock to acquire: the stored value, and the lease in ms; and with a fencing token: how long to
--          remember it, in ms
-- Returns  a text: server time in us, 16 digits, which is the fencing token of each; then one digit for each lock: `1`
--          released or acquired; `0` refused: the stored value begins in another way, or somebody holds the lock; `2`
--          not executed: a command failed, the deadline has passed, or the token has to be another one
-- Constants  FENCE_LEN, MARK_AT, TOKEN_LEN: see lib.lua
--
-- Atomic because a lock may expire and be acquired by another owner between the read and DEL, and because the fencing
-- token must belong to the grant. `pcall` everywhere, because the locks have nothing to do with each other: what one of
-- them meets changes nothing for the rest.
local pcall, digits, ours, places = redis.pcall, {}, {}, {}
local releases = tonumber(ARGV[1])
local plain = releases + tonumber(ARGV[2])

-- As in acquire.lua.
if not redis.REDIS_VERSION_NUM and redis.replicate_commands then redis.replicate_commands() end
local time = pcall('TIME')
local text = time[2]
while #text < 6 do
  text = '0' .. text
end
text = time[1] .. text
local is_late = #text > #ARGV[3] or #text == #ARGV[3] and text > ARGV[3]

for at = 1, releases do
  local held = pcall('GETRANGE', KEYS[at], '0', MARK_AT)
  digits[at] = type(held) == 'string' and '0' or '2'
  if held == ARGV[at + 3] then
    ours[#ours + 1] = KEYS[at]
    places[#ours] = at
  end
end
if ours[1] then
  -- One command for all of them costs less than one for each.
  -- Whatever number it returns, all of them are gone: each was there, and an owner may be named twice.
  local digit = type(pcall('DEL', unpack(ours))) == 'number' and '1' or '2'
  for n = 1, #ours do
    digits[places[n]] = digit
  end
end

local value = releases + 4
for at = releases + 1, #KEYS do
  digits[at] = '2'
  if not is_late then
    local set = pcall('SET', KEYS[at], ARGV[value], 'NX', 'PX', ARGV[value + 1])
    digits[at] = not set and '0' or set.ok and '1' or '2'
  end
  value = value + 2
  if at > plain then
    if digits[at] == '1' then
      local fence_key, remember = '{' .. KEYS[at] .. '}:f', ARGV[value]
      local fence = text .. ' ' .. string.sub(ARGV[value - 2], 1, TOKEN_LEN)
      local last = pcall('SET', fence_key, fence, 'PX', remember, 'GET')
      -- As in take.lua: the usual is no token, or one of an earlier time, which also begins with 16 digits.
      if last and not (#last == FENCE_LEN and last < text) then
        local is_token = type(last) == 'string' and string.find(last, '^%d+ %S+$')
        if not (is_token and string.sub(last, 17, 17) == ' ' and last < text) then
          -- For take.lua. How long a token had to be remembered is not known any more, so for longer than a day.
          if is_token then
            pcall('SET', fence_key, last, 'PX', math.max(remember, 90000000))
          elseif type(last) == 'string' then
            pcall('SET', fence_key, last)
          end
          pcall('DEL', KEYS[at])
          digits[at] = '2'
        end
      end
    end
    value = value + 1
  end
end
return text .. table.concat(digits)
