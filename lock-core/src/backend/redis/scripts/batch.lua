-- Releases and acquires many locks in one call: each release that finds nobody waiting, and the plain SET of each new
-- owner. A lock that needs more is left as it is, and its owner asks by itself.
--
-- KEYS     the locks: those to release, then those to acquire; a lock may be in both parts
-- ARGV     1  the number of locks to release
--          then, for each of them: owner token, 48 characters, and a space: the beginning of the stored value while it
--          has no mark
--          then, for each lock to acquire: the stored value, and the lease in ms
-- Returns  a text with one digit for each lock: `1` released or acquired; `0` refused: the stored value begins in
--          another way, or somebody holds the lock; `2` not executed, because its command failed
-- Constants  MARK_AT: see lib.lua
--
-- Atomic because a lock may expire and be acquired by another owner between the read and DEL. `pcall` everywhere,
-- because the locks have nothing to do with each other: what one of them meets changes nothing for the rest.
local pcall, digits, ours, places = redis.pcall, {}, {}, {}
local releases = tonumber(ARGV[1])
for at = 1, releases do
  digits[at] = '0'
  if pcall('GETRANGE', KEYS[at], '0', MARK_AT) == ARGV[at + 1] then
    ours[#ours + 1] = KEYS[at]
    places[#ours] = at
  end
end
if ours[1] then
  -- One command for all of them costs less than one for each.
  local digit = pcall('DEL', unpack(ours)) == #ours and '1' or '2'
  for n = 1, #ours do
    digits[places[n]] = digit
  end
end
local value = releases + 2
for at = releases + 1, #KEYS do
  local set = pcall('SET', KEYS[at], ARGV[value], 'NX', 'PX', ARGV[value + 1])
  digits[at] = not set and '0' or set.ok and '1' or '2'
  value = value + 2
end
return table.concat(digits)
