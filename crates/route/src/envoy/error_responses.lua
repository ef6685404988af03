-- Replaces error responses by the answers of a policy. The answers are the filter context of the route: `statuses` has a character for each
-- status from 400 on, and the field with the name of this character is the answer.

local CALL = "lockgate.errors"

-- Headers that describe the replaced body.
local OF_BODY = {
  "accept-ranges", "content-digest", "content-disposition", "content-encoding", "content-language", "content-location", "content-md5",
  "content-range", "digest", "etag", "last-modified", "repr-digest", "trailer",
}

-- A response has no part of its request, so the filter remembers the method. Without it, the response precedes this filter, or is one of gRPC.
function envoy_on_request(handle)
  local headers = handle:headers()
  local kind = headers:get("content-type")
  if kind ~= nil and kind:sub(1, 16) == "application/grpc" then
    return
  end
  handle:streamInfo():dynamicMetadata():set(CALL, "method", headers:get(":method"))
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local at = tonumber(headers:get(":status")) - 399
  if at < 1 then
    return
  end
  local call = handle:streamInfo():dynamicMetadata():get(CALL)
  local answers = handle:filterContext()
  local statuses = answers:get("statuses")
  if call == nil or statuses == nil then
    return
  end
  local answer = answers:get(statuses:sub(at, at))
  if answer == nil then
    return
  end
  for _, name in ipairs(OF_BODY) do
    headers:remove(name)
  end
  local body = answer["body"]
  headers:replace("content-type", answer["type"])
  headers:replace("content-length", tostring(#body))
  if answer["status"] ~= nil then
    headers:replace(":status", answer["status"])
  end
  if call["method"] == "HEAD" then
    return
  end
  -- The rest of the replaced body is read, so that the connection to the backend stays open. It is not held.
  local is_first = true
  for chunk in handle:bodyChunks() do
    chunk:setBytes(is_first and body or "")
    is_first = false
  end
  if is_first then
    handle:body(true):setBytes(body)
  end
end
