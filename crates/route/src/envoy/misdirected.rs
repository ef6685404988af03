//! The check of the server name of a connection, below wildcard hosts. The connections of an exact host reach only this host anyway.
//!
//! Only [`TlsSettings::strict_server_names`](crate::settings::TlsSettings) adds the filter. Envoy compares two values of a request in a program, or in an
//! expression of CEL, which knows no lower case.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3 as lua_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;

use super::wire;

/// Envoy has server names in lower case. An authority has at most one colon behind its brackets ([`super::authority`]).
const PROGRAM: &str = r#"function envoy_on_request(request)
  local host = request:headers():get(":authority"):lower():gsub(":%d*$", "")
  if host ~= request:streamInfo():requestedServerName() then
    request:respond({[":status"] = "421"}, "this connection was opened for another host\n")
  end
end
"#;

/// Builds the HTTP filter that answers 421 to requests for another host than the server name.
pub fn filter() -> hcm_v3::HttpFilter {
    let source = core_v3::data_source::Specifier::InlineString(PROGRAM.to_owned());
    let lua = lua_v3::Lua {
        default_source_code: Some(core_v3::DataSource { specifier: Some(source), ..Default::default() }),
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: "lockgate.misdirected".to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&lua))),
        ..Default::default()
    }
}
