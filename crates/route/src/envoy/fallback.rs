//! The routes of requests without a scope of their own.
//!
//! Envoy looks for the scope of a request with the host exactly as the client sent it, and knows no fallback. This filter
//! looks again for requests without a route: for the host in lower case, then for the scope of all other hosts. The scopes of
//! exact hosts turn the filter off, so their requests cost nothing more.
//!
//! Envoy selects the filters of a request before that, while the request has no route. Filters that only routes configure are
//! therefore on in the listener, and exact hosts turn them off.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3 as lua_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;

use super::{names, wire};
use crate::model::ListenerId;

/// The name of the filter.
const FILTER: &str = "lockgate.fallback";

/// Builds the HTTP filter of a listener whose hosts have scopes.
pub fn filter(listener: &ListenerId) -> hcm_v3::HttpFilter {
    let source = core_v3::data_source::Specifier::InlineString(script(listener));
    let script = core_v3::DataSource { specifier: Some(source), ..Default::default() };
    hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&lua_v3::Lua {
            default_source_code: Some(script),
            ..Default::default()
        }))),
        ..Default::default()
    }
}

/// Returns the program. Reading the metadata of the route makes Envoy look for the route again. All routes of scopes of exact
/// hosts have names ([`super::route::closed`]).
fn script(listener: &ListenerId) -> String {
    let (header, others) = (names::HOST, names::scope_of_others(listener));
    format!(
        r#"function envoy_on_request(request)
  local headers = request:headers()
  local scope = headers:get("{header}")
  local lower = scope:lower()
  if lower ~= scope then
    headers:replace("{header}", lower)
    request:clearRouteCache()
    request:metadata()
    if request:streamInfo():routeName() ~= "" then
      return
    end
  end
  headers:replace("{header}", "{others}")
  request:clearRouteCache()
end
"#
    )
}

/// Returns the configuration of the routes of an exact host by filter. It turns off the fallback, and the filters with these
/// names unless a route configures them.
pub fn off(filters: impl IntoIterator<Item = String>) -> HashMap<String, google::Any> {
    let off = wire::any(&route_v3::FilterConfig { disabled: true, ..Default::default() });
    [FILTER.to_owned()].into_iter().chain(filters).map(|name| (name, off.clone())).collect()
}
