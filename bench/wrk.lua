-- Sends the NUL-terminated requests of a file in rotation, and prints the result as JSON.
local requests, next = {}, 0
local began

function setup()
  began = os.clock()
end

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  for text in file:read('*a'):gmatch('([^%z]+)%z') do requests[#requests + 1] = text end
  file:close()
end

function request()
  next = next % #requests + 1
  return requests[next]
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('{"responses":%d,"us":%d,"cpuUs":%d,"refused":%d,"failed":%d,"p50Us":%d,"p99Us":%d}\n',
    summary.requests, summary.duration, (os.clock() - began) * 1e6, errors.status, failed, latency:percentile(50),
    latency:percentile(99)))
end
