//! The claims of hosts, for `lockgate status --claims`.

use lockgate_route::objects::{HostClaims, claim_key};
use serde::{Deserialize, Serialize};

use super::table::{Style, columns};
use crate::inspection::Inspection;

/// A claim of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimState {
    /// The host.
    pub host: String,
    /// The namespace that has the claim.
    pub namespace: String,
    /// The time of the claim in RFC 3339. Empty if unknown.
    pub since: String,
    /// The state: `served`, or `waiting` if the namespace has no rule for the host, so that the claim ends soon.
    pub state: String,
    /// The namespace and the name of the ConfigMap.
    pub config_map: String,
    /// The key in the ConfigMap.
    pub key: String,
}

/// Returns all claims, by host.
pub fn claims(inspection: &Inspection) -> Vec<ClaimState> {
    let mut found = Vec::new();
    for shard in inspection.objects.all::<HostClaims>() {
        let config_map = shard.meta.key.to_string();
        found.extend(shard.claims.iter().map(|(host, claim)| {
            let state = if inspection.unsettled.contains_key(host) { "waiting" } else { "served" };
            ClaimState {
                host: host.to_string(),
                namespace: claim.namespace.to_string(),
                since: claim.since.to_string(),
                state: state.to_owned(),
                config_map: config_map.clone(),
                key: claim_key(host),
            }
        }));
    }
    found.sort_by(|one, other| one.host.cmp(&other.host));
    found
}

/// Formats claims.
pub fn text(claims: &[ClaimState], style: Style) -> String {
    let head = ["HOST", "NAMESPACE", "SINCE", "STATE", "CONFIGMAP"].map(str::to_owned).to_vec();
    let row = |claim: &ClaimState| {
        let ClaimState { host, namespace, since, state, config_map, key: _ } = claim;
        [host, namespace, since, state, config_map].map(Clone::clone).to_vec()
    };
    let rows: Vec<Vec<String>> = [head].into_iter().chain(claims.iter().map(row)).collect();
    let mut text = columns(&rows, 0, style);
    if let Some(ClaimState { config_map, key, host, .. }) = claims.first() {
        let (namespace, name) = config_map.split_once('/').unwrap_or(("", config_map));
        text.push_str(&format!(
            "\nTo release a host, such as {host}, remove its key:\n  kubectl --namespace {namespace} patch configmap {name} \
             --type merge --patch '{{\"data\":{{\"{key}\":null}}}}'\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use lockgate_route::model::Host;

    use super::*;

    #[test]
    fn the_text_shows_how_a_host_is_released() {
        let claim = ClaimState {
            host: Host::Wildcard("x.com".into()).to_string(),
            namespace: "shop".into(),
            since: "2026-01-02T03:04:05Z".into(),
            state: "served".into(),
            config_map: "edge/lockgate-claims-3".into(),
            key: "_.x.com".into(),
        };
        let expected = "HOST     NAMESPACE  SINCE                 STATE   CONFIGMAP\n\
             *.x.com  shop       2026-01-02T03:04:05Z  served  edge/lockgate-claims-3\n\n\
             To release a host, such as *.x.com, remove its key:\n  \
             kubectl --namespace edge patch configmap lockgate-claims-3 --type merge --patch '{\"data\":{\"_.x.com\":null}}'\n";
        assert_eq!(text(&[claim], Style::Plain), expected);
        assert_eq!(text(&[], Style::Plain), "HOST  NAMESPACE  SINCE  STATE  CONFIGMAP\n");
    }
}
