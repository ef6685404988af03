//! Limits of the request rate that each Envoy counts by itself.
//!
//! Envoy builds all routes of a route configuration anew when one of them changes. A limit on a route then starts with a full
//! bucket, and routes of other tenants may be in the same configuration: those of a host, or of all wildcard hosts of a listener
//! for plain HTTP. Limits are therefore counted in the filter chain, which no change of a route affects. The filter has a table
//! with a kind of bucket for each period. A route states in its metadata which kind counts its requests, the name of its bucket,
//! and the number of tokens that a request takes.
//!
//! Of each kind, a filter chain has as many buckets as a limit on a route has for addresses, so that it takes no more memory.
//! Beyond that number, Envoy drops the least recently used bucket.
//!
//! A kind of bucket has one ratio between its rate and its capacity, and a filter chain has one answer. Limits with a burst or an answer of
//! their own are therefore on the routes, or on the virtual host if its routes share the limit. A changed route of the host fills
//! such a bucket.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3 as descriptor_v3;
use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3 as local_ratelimit_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::metadata::v3 as metadata_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;

use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;
use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

use super::{headers, names, wire};
use crate::model::{LimitAnswer, LocalRateLimit, Share};

/// The name of the filter, to which routes refer.
pub const FILTER: &str = "envoy.filters.http.local_ratelimit";

/// The prefix of the filter's statistics.
const STATISTICS: &str = "policy";

/// The key of the client's address in descriptors. Source: Envoy `RateLimit.Action.RemoteAddress`.
const REMOTE_ADDRESS: &str = "remote_address";

/// The tokens of a full bucket in the table of a filter chain.
const TOKENS: u32 = 1_000_000_000;
/// The periods in the table of a filter chain, in seconds.
const PERIODS: [u64; 3] = [1, 60, 3600];
/// The keys of the metadata of a limited route, and of descriptors: the period in seconds, and the name of the bucket.
const PERIOD: &str = "period";
const CLIENT_PERIOD: &str = "client-period";
const LIMIT: &str = "limit";
/// The key of the number of tokens for a request.
const COST: &str = "cost";

/// Builds the HTTP filter, which has no effect on routes without a limit.
pub fn filter(disabled: bool) -> hcm_v3::HttpFilter {
    hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&table()))),
        disabled,
        ..Default::default()
    }
}

/// Builds a token bucket.
fn bucket(max_tokens: u32, tokens_per_fill: u32, fill_interval: Duration) -> Option<type_v3::TokenBucket> {
    Some(type_v3::TokenBucket {
        max_tokens,
        tokens_per_fill: Some(wire::uint32(tokens_per_fill)),
        fill_interval: Some(wire::duration(fill_interval)),
    })
}

fn all() -> Option<core_v3::RuntimeFractionalPercent> {
    Some(wire::fraction(Share::ALL))
}

/// Builds the table of all kinds of buckets.
fn table() -> local_ratelimit_v3::LocalRateLimit {
    use descriptor_v3::rate_limit_descriptor::Entry;
    use route_v3::rate_limit::HitsAddend;
    use route_v3::rate_limit::action::ActionSpecifier;
    let rate_limit = |period: &str, addresses: bool| {
        let address = addresses.then(|| ActionSpecifier::RemoteAddress(Default::default()));
        let actions = [metadata_of_route(period), metadata_of_route(LIMIT)].into_iter().chain(address);
        route_v3::RateLimit {
            actions: actions.map(|one| route_v3::rate_limit::Action { action_specifier: Some(one) }).collect(),
            hits_addend: Some(HitsAddend {
                format: format!("%METADATA(ROUTE:{}:{COST})%", names::LIMIT),
                ..Default::default()
            }),
            ..Default::default()
        }
    };
    let descriptor = |kind: &str, period: u64, addresses: bool| {
        // An entry without a value has a bucket for each value.
        let any = |key: &str| Entry { key: key.to_owned(), value: String::new() };
        let kind = Entry { key: kind.to_owned(), value: period.to_string() };
        descriptor_v3::LocalRateLimitDescriptor {
            entries: [kind, any(LIMIT)].into_iter().chain(addresses.then(|| any(REMOTE_ADDRESS))).collect(),
            token_bucket: bucket(TOKENS, TOKENS, Duration::from_secs(period)),
            ..Default::default()
        }
    };
    let kinds = [(PERIOD, false), (CLIENT_PERIOD, true)];
    local_ratelimit_v3::LocalRateLimit {
        stat_prefix: STATISTICS.to_owned(),
        // For requests without a limit. Its interval divides the others, as Envoy requires.
        token_bucket: bucket(u32::MAX, u32::MAX, Duration::from_secs(1)),
        filter_enabled: all(),
        filter_enforced: all(),
        rate_limits: kinds.iter().map(|(kind, addresses)| rate_limit(kind, *addresses)).collect(),
        descriptors: kinds
            .iter()
            .flat_map(|(kind, addresses)| PERIODS.iter().map(|period| descriptor(kind, *period, *addresses)))
            .collect(),
        max_dynamic_descriptors: Some(wire::uint32(LocalRateLimit::MAX_ADDRESSES)),
        always_consume_default_token_bucket: Some(wire::boolean(false)),
        ..Default::default()
    }
}

/// Builds the part of a descriptor that comes from the metadata of a route. Without it, there is no descriptor.
fn metadata_of_route(key: &str) -> route_v3::rate_limit::action::ActionSpecifier {
    use metadata_v3::metadata_key::{PathSegment, path_segment};
    use route_v3::rate_limit::action::{ActionSpecifier, MetaData, meta_data};
    let segment = PathSegment { segment: Some(path_segment::Segment::Key(key.to_owned())) };
    ActionSpecifier::Metadata(MetaData {
        descriptor_key: key.to_owned(),
        metadata_key: Some(metadata_v3::MetadataKey { key: names::LIMIT.to_owned(), path: vec![segment] }),
        source: meta_data::Source::RouteEntry as i32,
        ..Default::default()
    })
}

/// Returns whether the table can count the requests of a route with this limit.
pub fn is_in_table(limit: &LocalRateLimit) -> bool {
    limit.burst == 0 && limit.answer.is_none() && PERIODS.contains(&limit.period.as_secs())
}

/// Returns whether a virtual host counts the requests of all routes with this limit.
pub fn is_of_host(limit: &LocalRateLimit) -> bool {
    limit.shared.is_some() && !is_in_table(limit)
}

/// Builds the metadata of a route of `origin` with this limit, for the table. Routes with the same match have one
/// bucket, such as the routes of a session, unless they are counted for different rules. So do routes that share one. A changed limit has
/// a new bucket.
pub fn metadata(
    limit: &LocalRateLimit,
    origin: &ObjectRef,
    rule: Option<&str>,
    matches: &route_v3::RouteMatch,
) -> google::Struct {
    let LocalRateLimit { requests, period, burst: _, per_client_address, ref shared, answer: _ } = *limit;
    let period = period.as_secs().to_string();
    // The object of the route is not hashed, so that no tenant can share the bucket of another.
    let rule = rule.map(|rule| format!(" {rule}")).unwrap_or_default();
    let name = match shared {
        Some(shared) => format!("{shared} {requests}"),
        None => format!("{}{rule} {requests} {:016x}", names::route(origin), xxh3_64(&matches.encode_to_vec())),
    };
    let kind = if per_client_address { CLIENT_PERIOD } else { PERIOD };
    let mut fields = wire::text_struct([(kind, &*period), (LIMIT, &*name)]);
    let cost = (TOKENS / requests.max(1)).max(1);
    let cost = google::Value { kind: Some(google::value::Kind::NumberValue(f64::from(cost))) };
    fields.fields.insert(COST.to_owned(), cost);
    fields
}

/// Builds the configuration of a route whose requests the table counts: the filter, enabled.
pub fn of_table() -> google::Any {
    wire::any(&route_v3::FilterConfig { config: Some(google::Any::default()), ..Default::default() })
}

/// Builds the configuration of a route without a limit, on a virtual host with one. Envoy would enforce the limit of the virtual host if the
/// filter were only disabled, because the fallback can select the route after the filters.
pub fn none() -> google::Any {
    let config = local_ratelimit_v3::LocalRateLimit {
        stat_prefix: STATISTICS.to_owned(),
        // Required, and not used.
        token_bucket: bucket(u32::MAX, u32::MAX, Duration::from_secs(1)),
        ..Default::default()
    };
    wire::any(&config)
}

/// Builds the configuration of a route, or of a virtual host, with a bucket of its own. Requests over the limit are answered 429 by default.
pub fn with_bucket(limit: &LocalRateLimit) -> google::Any {
    let LocalRateLimit { requests, period, burst, per_client_address, shared: _, ref answer } = *limit;
    let bucket = || bucket(requests.saturating_add(burst), requests, period);
    let mut config = local_ratelimit_v3::LocalRateLimit {
        stat_prefix: STATISTICS.to_owned(),
        token_bucket: bucket(),
        filter_enabled: all(),
        filter_enforced: all(),
        ..Default::default()
    };
    if per_client_address {
        use route_v3::rate_limit::action::{ActionSpecifier, RemoteAddress};
        let action = ActionSpecifier::RemoteAddress(RemoteAddress::default());
        let actions = vec![route_v3::rate_limit::Action { action_specifier: Some(action) }];
        config.rate_limits = vec![route_v3::RateLimit { actions, ..Default::default() }];
        // An entry without a value has a bucket for each value.
        let entry =
            descriptor_v3::rate_limit_descriptor::Entry { key: REMOTE_ADDRESS.to_owned(), value: String::new() };
        config.descriptors = vec![descriptor_v3::LocalRateLimitDescriptor {
            entries: vec![entry],
            token_bucket: bucket(),
            ..Default::default()
        }];
        config.max_dynamic_descriptors = Some(wire::uint32(LocalRateLimit::MAX_ADDRESSES));
        config.always_consume_default_token_bucket = Some(wire::boolean(false));
    }
    if let Some(answer) = answer {
        let LimitAnswer { status, headers: answered } = &**answer;
        config.status = Some(type_v3::HttpStatus { code: i32::from(*status) });
        config.response_headers_to_add = answered
            .iter()
            .map(|(name, value)| headers::set(name.as_str(), &value.as_str().replace('%', "%%")))
            .collect();
    }
    wire::any(&config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envoy_knows_the_statuses_of_answers() {
        let known = |status: &u16| type_v3::StatusCode::try_from(i32::from(*status)).is_ok();
        let all: Vec<u16> = (400..600).filter(known).collect();
        assert_eq!(LimitAnswer::STATUSES.to_vec(), all);
    }

    #[test]
    fn a_request_takes_its_share_of_a_bucket() {
        let origin = ObjectRef::new("HTTPRoute", "shop", "cart");
        let limit = |requests, per_client_address| {
            let period = Duration::from_secs(60);
            LocalRateLimit { requests, period, burst: 0, per_client_address, shared: None, answer: None }
        };
        let built = |limit: &LocalRateLimit| metadata(limit, &origin, None, &route_v3::RouteMatch::default());
        for (requests, cost) in [(1, 1e9), (3, 333_333_333.0), (u32::MAX, 1.0)] {
            let fields = built(&limit(requests, false)).fields;
            assert_eq!(fields[COST].kind, Some(google::value::Kind::NumberValue(cost)));
            assert!(fields.contains_key(PERIOD) && !fields.contains_key(CLIENT_PERIOD));
        }
        assert!(built(&limit(3, true)).fields.contains_key(CLIENT_PERIOD));
        assert_ne!(built(&limit(3, false)), built(&limit(4, false)), "another limit has another bucket");
        let counted = metadata(&limit(3, false), &origin, Some("shop.test"), &route_v3::RouteMatch::default());
        assert_ne!(counted, built(&limit(3, false)), "a host of an Ingress has its own bucket");
        let shared = LocalRateLimit { shared: Some("shop.test".into()), ..limit(3, false) };
        let other = route_v3::RouteMatch { case_sensitive: Some(wire::boolean(false)), ..Default::default() };
        assert_eq!(metadata(&shared, &origin, None, &other), built(&shared), "routes share a bucket");
        let burst = LocalRateLimit { burst: 1, ..limit(3, false) };
        assert_eq!((is_in_table(&limit(3, true)), is_in_table(&burst)), (true, false));
        let of_host = LocalRateLimit { burst: 1, ..shared.clone() };
        assert_eq!([&shared, &burst, &of_host].map(is_of_host), [false, false, true]);
    }
}
