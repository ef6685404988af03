//! Objects that Lockgate does not read, to the surprise of their owner: other versions, misspelled kinds, and resources of other
//! ingress controllers.

use lockgate_route::objects::{Kind, gateway};

use super::finding::Level;
use crate::source::manifest::Unread;

/// The API groups of other ingress controllers, with their names.
const CONTROLLERS: &[(&str, &str)] = &[
    ("projectcontour.io", "Contour"),
    ("k8s.nginx.org", "NGINX Ingress Controller"),
    ("traefik.io", "Traefik"),
    ("traefik.containo.us", "Traefik"),
    ("configuration.konghq.com", "Kong"),
    ("core.haproxy.org", "HAProxy Kubernetes Ingress Controller"),
    ("ingress.v1.haproxy.org", "HAProxy Kubernetes Ingress Controller"),
    ("getambassador.io", "Emissary-ingress"),
    ("apisix.apache.org", "APISIX"),
    ("elbv2.k8s.aws", "AWS Load Balancer Controller"),
    ("networking.gke.io", "GKE"),
    ("gateway.envoyproxy.io", "Envoy Gateway"),
    ("networking.istio.io", "Istio"),
    ("cilium.io", "Cilium"),
];

/// The kinds of these groups that other programs read, too.
const OTHERS: &[(&str, &str)] = &[("cilium.io", "CiliumNetworkPolicy"), ("networking.istio.io", "Sidecar")];

/// Returns the level, the message, and the remedy if the owner of `object` may expect that Lockgate reads it.
pub fn unread(object: &Unread) -> Option<(Level, String, String)> {
    let Unread { api_version, kind, .. } = object;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let is_similar = |known: &Kind| {
        let info = known.info();
        let is_of_group = info.group == group || (group.is_empty() || group == "extensions") && !info.group.is_empty();
        info.name.eq_ignore_ascii_case(kind) && is_of_group
    };
    if let Some(known) = Kind::ALL.iter().find(|known| !known.is(api_version, kind) && is_similar(known)) {
        let message = format!("kind {kind:?} of {api_version:?} does not exist");
        let remedy = format!("Write apiVersion: {} and kind: {}.", known.api_version(), known.as_str());
        return Some((Level::Error, message, remedy));
    }
    if Kind::ALL.iter().any(|known| known.is(api_version, kind)) {
        // The translation reads the kind, and has no use for this object, such as a Secret without a certificate.
        return None;
    }
    if group == gateway::GROUP || group == "gateway.networking.x-k8s.io" {
        let message = format!("kind {kind:?} of Gateway API ({version}) is not supported");
        let remedy = "Remove the object if nothing else reads it; docs/gateway-api.md lists the supported kinds.";
        return Some((Level::Warning, message, remedy.to_owned()));
    }
    let (_, controller) = CONTROLLERS.iter().find(|(of, _)| *of == group)?;
    if OTHERS.contains(&(group, kind.as_str())) {
        return None;
    }
    let message = format!("kind {kind:?} is a resource of {controller}");
    let remedy = "Write an Ingress or an HTTPRoute for Lockgate instead.";
    Some((Level::Note, message, remedy.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn judged(api_version: &str, kind: &str) -> Option<(Level, String)> {
        let object = Unread { api_version: api_version.into(), kind: kind.into(), ..Unread::default() };
        unread(&object).map(|(level, _, remedy)| (level, remedy))
    }

    #[test]
    fn objects_of_a_wrong_version_or_of_another_controller_are_reported() {
        let is = |api_version: &str, kind: &str| judged(api_version, kind).unwrap();
        let (level, remedy) = is("networking.k8s.io/v2", "Ingress");
        assert_eq!((level, &*remedy), (Level::Error, "Write apiVersion: networking.k8s.io/v1 and kind: Ingress."));
        assert_eq!(is("networking.k8s.io/v1", "ingress").0, Level::Error);
        assert_eq!(is("v1", "Ingress").0, Level::Error);
        assert_eq!(is("gateway.networking.k8s.io/v1alpha9", "HTTPRoute").0, Level::Error);
        assert_eq!(is("gateway.networking.k8s.io/v1alpha2", "Mesh").0, Level::Warning);
        assert_eq!(is("projectcontour.io/v1", "HTTPProxy").0, Level::Note);
    }

    #[test]
    fn objects_of_other_programs_are_not_reported() {
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("v1", "ConfigMap"),
            ("v1", "Secret"),
            ("serving.knative.dev/v1", "Service"),
            ("networking.k8s.io/v1", "NetworkPolicy"),
            ("cilium.io/v2", "CiliumNetworkPolicy"),
        ] {
            assert_eq!(judged(api_version, kind), None, "{kind}");
        }
    }
}
