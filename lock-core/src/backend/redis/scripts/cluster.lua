-- What stands in front of every script on a Cluster, but renew.lua: there a script must name every key that it touches,
-- and a message goes to all servers unless it is a sharded one.
--
-- KEYS     for each lock: the lock, then `q`, `w`, `f` and `l` of its helper keys; last what the channels of the slot
--          begin with, which is in the slot too and never a key
-- Leaves   the locks alone in KEYS, and PUBLISH as SPUBLISH to the channel of the slot
-- Constants  CHANNEL: see lib.lua
local KEYS, redis = (function(named, real)
  local locks, wake = {}, named[#named]
  for i = 1, #named - 1, 5 do
    locks[#locks + 1] = named[i]
  end
  local function pcall(command, channel, ...)
    if command == 'PUBLISH' then
      return real.pcall('SPUBLISH', wake .. string.sub(channel, #CHANNEL + 1), ...)
    end
    return real.pcall(command, channel, ...)
  end
  return locks, setmetatable({pcall = pcall}, {__index = real})
end)(KEYS, redis)

