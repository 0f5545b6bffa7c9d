"""Add numbered entries to a stream of the record, in a Lua script.

The number `n` of an entry is one more than that of the entry before it, and one more for each that was dropped in
between, by its maker or by a bound of the stream. So a reader that remembers the last `n` knows how many it lacks.
"""

from __future__ import annotations

COUNT_SECONDS = 30 * 86400  # longer than any stream: an empty stream must not restart the count

# append(stream, count, dropped, most, seconds, field, value, …): adds an entry with these fields and its `n`; `dropped`
# entries before it were lost. The stream keeps about `most` entries, of the last `seconds`, and is gone that long after
# the last one. Replaces values that another program left under the two keys.
APPEND = f"""
local function append(stream, count, dropped, most, seconds, ...)
  if not ({{stream = 1, none = 1}})[redis.call('TYPE', stream).ok] then redis.call('DEL', stream) end
  local n = redis.pcall('INCRBY', count, dropped + 1)
  if type(n) ~= 'number' then
    redis.call('DEL', count)
    n = redis.call('INCRBY', count, dropped + 1)
  end
  redis.call('EXPIRE', count, {COUNT_SECONDS})
  local id = redis.call('XADD', stream, 'MAXLEN', '~', most, '*', 'n', n, ...)
  local oldest = tonumber(string.match(id, '^%d+')) - seconds * 1000
  redis.call('XTRIM', stream, 'MINID', string.format('%.0f', oldest))
  redis.call('EXPIRE', stream, seconds)
end
"""
