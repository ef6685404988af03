//! Answers of policies in the place of error responses.
//!
//! With the setting `http.errorResponses`, listeners have a constant script, and each route has its answers as data: no text of a tenant is
//! code. The script keeps the other headers of a response, such as challenges, cookies, and those of CORS. Envoy's filter `custom_response` would
//! drop them and close the connection to the backend.
//!
//! Each connection manager, so each key pair, has an interpreter of 90 KB for each thread of Envoy, used or not: with 300 key pairs and two
//! workers, 189 MB instead of 100. A script in a delegate would need one for each route. A replaced response takes 2 µs of CPU.

use std::collections::HashMap;

use envoy_types::pb::envoy::extensions::filters::http::lua::v3 as lua_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;

use super::wire;
use crate::model::ErrorResponse;

/// The name of the filter, to which routes refer.
pub const FILTER: &str = "lockgate.errors";

/// The script, and its name in the configuration of a route.
const SCRIPT: &str = include_str!("error_responses.lua");
const NAME: &str = "errors";

/// The field with a character for each status from 400 on.
const STATUSES: &str = "statuses";
/// The character of statuses without an answer.
const NONE: u8 = b'-';
/// The character of the first answer.
const FIRST: u8 = b'a';

/// Builds the HTTP filter, which has no effect on routes without answers. If it is `disabled`, only routes with answers create it.
pub fn filter(disabled: bool) -> hcm_v3::HttpFilter {
    let script = lua_v3::Lua {
        source_codes: HashMap::from([(NAME.to_owned(), wire::inline_string(SCRIPT))]),
        stat_prefix: NAME.to_owned(),
        clear_route_cache: Some(wire::boolean(false)),
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&script))),
        disabled,
        ..Default::default()
    }
}

/// Builds the configuration of a route with these answers. `None`: no response is replaced.
pub fn per_route(answers: &[ErrorResponse]) -> Option<google::Any> {
    let text = |text: String| google::Value { kind: Some(google::value::Kind::StringValue(text)) };
    let mut statuses = String::from_utf8(by_status(answers)).ok()?;
    statuses.truncate(statuses.trim_end_matches(char::from(NONE)).len());
    if statuses.is_empty() {
        return None;
    }
    let answer = |(character, answer): (u8, &ErrorResponse)| {
        let ErrorResponse { statuses: _, status, content_type, body } = answer;
        let status = status.map(|status| status.to_string());
        let fields = [("body", &**body), ("type", content_type.as_str())];
        let fields = wire::text_struct(fields.into_iter().chain(status.as_deref().map(|status| ("status", status))));
        (char::from(character).to_string(), google::Value { kind: Some(google::value::Kind::StructValue(fields)) })
    };
    let mut fields: HashMap<_, _> = (FIRST..=b'z').zip(answers).map(answer).collect();
    fields.insert(STATUSES.to_owned(), text(statuses));
    Some(wire::any(&lua_v3::LuaPerRoute {
        r#override: Some(lua_v3::lua_per_route::Override::Name(NAME.to_owned())),
        filter_context: Some(google::Struct { fields }),
        ..Default::default()
    }))
}

/// Returns the character of the first answer for each status.
fn by_status(answers: &[ErrorResponse]) -> Vec<u8> {
    let replaced = |status: u16| {
        let mut named = (FIRST..=b'z').zip(answers);
        named.find(|(_, answer)| answer.statuses.iter().any(|range| range.contains(&status)))
    };
    ErrorResponse::STATUSES.map(|status| replaced(status).map_or(NONE, |(character, _)| character)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;
    use crate::model::HeaderValue;

    #[test]
    fn the_first_answer_for_a_status_replaces_it() {
        let answer = |statuses: &[std::ops::RangeInclusive<u16>]| ErrorResponse {
            statuses: statuses.to_vec(),
            status: None,
            content_type: HeaderValue::parse("text/plain").expect("a value"),
            body: "".into(),
        };
        let text = |answers: &[ErrorResponse]| String::from_utf8(by_status(answers)).expect("text");
        let statuses = text(&[answer(&[404..=404, 500..=502]), answer(&[400..=400, 404..=405, 599..=599])]);
        assert_eq!(statuses, format!("b---ab{}aaa{}b", "-".repeat(94), "-".repeat(96)));
        assert!(per_route(&[]).is_none() && per_route(&[answer(&[])]).is_none());
        assert!(per_route(&[answer(&[400..=400])]).is_some());
    }
}
