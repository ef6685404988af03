//! Changes of the cookies that backends set, by a program in Lua. No other filter of Envoy changes one of several values of a header.
//!
//! The program is constant. What tenants write is data of the filter (`filter_context`), so it cannot become a part of the program.
//! Source: CVE-2026-41246.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3 as lua_v3;
use envoy_types::pb::google::protobuf as google;
use google::value::Kind;

use super::delegate;
use crate::model::{CookieRewrite, CookieRewrites, ForwardFilter};

/// The program.
const PROGRAM: &str = r#"local function rewrite(cookie, changes)
  local pair, rest = cookie:match("^([^;]*)(.*)$")
  local change = changes[pair:match("^%s*([^=%s]*)%s*=") or ""]
  if change == nil then return cookie end
  local parts = { pair }
  for attribute in rest:gmatch("[^;]+") do
    if change[attribute:match("^%s*([^=%s]*)"):lower()] == nil then parts[#parts + 1] = attribute end
  end
  for _, name in ipairs({ "Path", "Domain", "SameSite" }) do
    local value = change[name:lower()]
    if value ~= nil then parts[#parts + 1] = " " .. name .. "=" .. value end
  end
  if change.secure then parts[#parts + 1] = " Secure" end
  return table.concat(parts, ";")
end
function envoy_on_response(response)
  local headers, lists = response:headers(), response:filterContext():get("lists")
  local changes = lists[1]
  if #lists > 1 then
    changes = lists[tonumber(headers:get("HEADER")) or 0]
    headers:remove("HEADER")
  end
  local count = headers:getNumValues("set-cookie")
  if count == 0 or changes == nil then return end
  local cookies = {}
  for index = 1, count do cookies[index] = rewrite(headers:getAtIndex("set-cookie", index - 1), changes) end
  headers:remove("set-cookie")
  for _, cookie in ipairs(cookies) do headers:add("set-cookie", cookie) end
end
"#;

/// Builds the filter of a route with `filters`.
pub fn of_route(filters: &[ForwardFilter]) -> Option<core_v3::TypedExtensionConfig> {
    let rewrites = filters.iter().rev().find_map(|filter| match filter {
        ForwardFilter::Cookies(rewrites) => Some(rewrites),
        _ => None,
    })?;
    let program = PROGRAM.replace("HEADER", CookieRewrites::HEADER);
    let source = core_v3::data_source::Specifier::InlineString(program);
    let lua = lua_v3::Lua {
        default_source_code: Some(core_v3::DataSource { specifier: Some(source), ..Default::default() }),
        filter_context: Some(fields([("lists".to_owned(), list(rewrites.lists.iter().map(|list| changes(list))))])),
        ..Default::default()
    };
    Some(delegate::part("envoy.filters.http.lua", &lua))
}

/// Builds the changes by name of the cookie.
fn changes(list: &[CookieRewrite]) -> google::Value {
    structure(list.iter().map(|rewrite| {
        let CookieRewrite { name, path, domain, secure, same_site } = rewrite;
        let text = |text: &str| google::Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let attributes = [
            ("path", path.as_ref().map(|value| text(value.as_str()))),
            ("domain", domain.as_ref().map(|value| text(value.as_str()))),
            ("secure", secure.map(|secure| google::Value { kind: Some(Kind::BoolValue(secure)) })),
            ("samesite", same_site.map(|value| text(value.as_str()))),
        ];
        let attributes = attributes.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        (name.to_string(), structure(attributes))
    }))
}

fn list(values: impl Iterator<Item = google::Value>) -> google::Value {
    google::Value { kind: Some(Kind::ListValue(google::ListValue { values: values.collect() })) }
}

fn structure(values: impl IntoIterator<Item = (String, google::Value)>) -> google::Value {
    google::Value { kind: Some(Kind::StructValue(fields(values))) }
}

fn fields(values: impl IntoIterator<Item = (String, google::Value)>) -> google::Struct {
    google::Struct { fields: values.into_iter().collect::<HashMap<_, _>>() }
}
