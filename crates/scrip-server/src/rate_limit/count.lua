-- Counts one request on all of its counters, or on none.
--
-- KEYS: for each counter its log and its block. The log is the list of the last admissions, as many
-- as the limit; so the window is full when the first of so many is still inside.
-- ARGV: for each counter its limit, and its window and block in microseconds; no block is 0.
-- Answers with the time, and for each counter how long to wait; 0 where there is room.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local response = {now}
local at = {}
local rejected = false

for i = 1, #KEYS / 2 do
  local log, block = KEYS[2 * i - 1], KEYS[2 * i]
  local limit = tonumber(ARGV[3 * i - 2])
  local window = tonumber(ARGV[3 * i - 1])
  local length = tonumber(ARGV[3 * i])
  local wait = 0

  -- This clock can be set back. By little: the counter's time stands still. By more: it begins anew.
  at[i] = now
  local newest = tonumber(redis.call('LINDEX', log, -1) or 0)
  if newest > now + window then
    redis.call('DEL', log)
  elseif newest > now then
    at[i] = newest
  end

  local first = redis.call('LINDEX', log, -limit)
  if first then
    wait = math.max(0, tonumber(first) + window - at[i] + 1)
  end

  if length > 0 then
    local left = tonumber(redis.call('GET', block) or 0) - now + 1
    if left > length + 1 then
      redis.call('DEL', block)
      left = 0
    end
    if left > 0 then
      wait = math.max(wait, left)
    elseif wait > 0 then
      redis.call('SET', block, string.format('%.0f', now + length),
        'PX', math.ceil(length / 1000) + 1)
      wait = math.max(wait, length + 1)
    end
  end

  response[i + 1] = wait
  rejected = rejected or wait > 0
end

if not rejected then
  for i = 1, #KEYS / 2 do
    local log = KEYS[2 * i - 1]
    redis.call('RPUSH', log, string.format('%.0f', at[i]))
    redis.call('LTRIM', log, -tonumber(ARGV[3 * i - 2]), -1)
    redis.call('PEXPIRE', log, math.ceil(tonumber(ARGV[3 * i - 1]) / 1000) + 1)
  end
end
return response
