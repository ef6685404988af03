//! Lists of allowed and denied client addresses.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::rbac::v3 as rbac_config_v3;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as rbac_v3;
use rbac_config_v3::principal::{Identifier, Set};
use rbac_config_v3::{Permission, Principal, permission};

use super::{delegate, wire};
use crate::model::{ClientAddresses, ClientRange};

/// Builds the filter of a route with these lists. Other clients are answered 403. Envoy takes the client's address
/// from trusted proxies, as the access log does.
pub fn of_route(addresses: &ClientAddresses) -> core_v3::TypedExtensionConfig {
    let ClientAddresses { allow, deny } = addresses;
    let mut conditions = Vec::new();
    if !allow.is_empty() {
        conditions.push(any_of(allow));
    }
    if !deny.is_empty() {
        conditions.push(principal(Identifier::NotId(Box::new(any_of(deny)))));
    }
    if conditions.is_empty() {
        conditions.push(principal(Identifier::Any(true)));
    }
    let policy = rbac_config_v3::Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Any(true)) }],
        principals: vec![principal(Identifier::AndIds(Set { ids: conditions }))],
        ..Default::default()
    };
    let rules = rbac_config_v3::Rbac {
        action: rbac_config_v3::rbac::Action::Allow as i32,
        policies: HashMap::from([("clients".to_owned(), policy)]),
        ..Default::default()
    };
    delegate::part("envoy.filters.http.rbac", &rbac_v3::Rbac { rules: Some(rules), ..Default::default() })
}

fn any_of(ranges: &[ClientRange]) -> Principal {
    let range = |ClientRange { range, of_connection }: &ClientRange| {
        let range = core_v3::CidrRange {
            address_prefix: range.address().to_string(),
            prefix_len: Some(wire::uint32(range.length().into())),
        };
        principal(match of_connection {
            true => Identifier::DirectRemoteIp(range),
            false => Identifier::RemoteIp(range),
        })
    };
    principal(Identifier::OrIds(Set { ids: ranges.iter().map(range).collect() }))
}

fn principal(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}
