//! The routes of requests without a scope of their own.
//!
//! Envoy looks for the scope of a request with the host exactly as the client sent it, and knows no fallback. Three filters
//! select the scope of all other hosts for requests without a route: one sets the key, and one makes Envoy look again. The
//! third looks for hosts in upper case with their lower-case names first. They run in one [`delegate`], which the scopes of exact hosts
//! turn off. Each filter that a scope turns off takes 1.6 KB of Envoy's memory. One that is on without a configuration costs each request 2 %,
//! so all are off.
//!
//! Envoy selects the filters of a request before that, while the request has no route. Filters that only routes configure are
//! therefore on in the listener, and exact hosts turn them off.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::common::mutation_rules::v3 as mutation_rules_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3 as header_mutation_v3;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3 as lua_v3;
use envoy_types::pb::envoy::extensions::filters::http::set_filter_state::v3 as set_filter_state_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::r#type::matcher::v3::string_matcher::MatchPattern;

use super::{delegate, headers, names, wire};
use crate::model::ListenerId;

/// The name of the HTTP filter.
const FILTER: &str = "lockgate.fallback";

/// Builds the HTTP filter of a listener whose hosts have scopes.
pub fn filter(listener: &ListenerId) -> hcm_v3::HttpFilter {
    let key = delegate::part("key", &key_of_others(listener));
    let again = delegate::part("look-again", &look_again());
    delegate::running(FILTER, vec![key, again, upper_case(listener)])
}

/// Sets the key of the scope of all other hosts.
fn key_of_others(listener: &ListenerId) -> header_mutation_v3::HeaderMutation {
    use mutation_rules_v3::header_mutation::Action;
    let set = headers::set(names::HOST, &names::scope_of_others(listener));
    let mutations = header_mutation_v3::Mutations {
        request_mutations: vec![mutation_rules_v3::HeaderMutation { action: Some(Action::Append(set)) }],
        ..Default::default()
    };
    header_mutation_v3::HeaderMutation { mutations: Some(mutations), ..Default::default() }
}

/// Makes Envoy look for the route again. The filter sets no state.
fn look_again() -> set_filter_state_v3::Config {
    set_filter_state_v3::Config { clear_route_cache: true, ..Default::default() }
}

/// Runs the program for hosts with upper-case letters.
fn upper_case(listener: &ListenerId) -> core_v3::TypedExtensionConfig {
    let source = core_v3::data_source::Specifier::InlineString(script(listener));
    let lua = lua_v3::Lua {
        default_source_code: Some(core_v3::DataSource { specifier: Some(source), ..Default::default() }),
        ..Default::default()
    };
    let lower_case = delegate::header(":authority", MatchPattern::SafeRegex(delegate::regex("[^A-Z]*".to_owned())));
    delegate::unless(lower_case, delegate::part("envoy.filters.http.lua", &lua))
}

/// Returns the program. Reading the metadata of the route makes Envoy look for it. All routes of scopes of exact hosts have
/// names ([`super::route::closing`]).
fn script(listener: &ListenerId) -> String {
    let (header, key, others) = (names::HOST, format!("{listener}/"), names::scope_of_others(listener));
    format!(
        r#"function envoy_on_request(request)
  local headers = request:headers()
  local host = headers:get(":authority"):lower()
  headers:replace("{header}", "{key}" .. host)
  request:clearRouteCache()
  request:metadata()
  if request:streamInfo():routeName() == "" then
    headers:replace("{header}", "{others}")
    request:clearRouteCache()
  end
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
