//! Objects that Lockgate does not read, to the surprise of their owner: other versions, misspelled kinds, and resources of other
//! ingress controllers.

use std::ffi::OsStr;
use std::path::Path;

use lockgate_route::objects::{Kind, gateway};
use serde_json::Value;

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
    ("cloud.google.com", "GKE"),
    ("gateway.envoyproxy.io", "Envoy Gateway"),
    ("networking.istio.io", "Istio"),
    ("cilium.io", "Cilium"),
    ("route.openshift.io", "OpenShift"),
];

/// The kinds of these groups whose purpose is to restrict access. Istio enforces its policies at the workloads, behind any
/// ingress controller, and a Middleware or a plugin can be anything. The policies of Envoy Gateway are read.
const RESTRICTING: &[(&str, &str)] = &[("k8s.nginx.org", "Policy"), ("getambassador.io", "FilterPolicy")];

/// The largest number of changed letters with which a kind counts as misspelled.
const MISSPELLED: usize = 2;

/// The kinds of these groups that other programs read, too.
const OTHERS: &[(&str, &str)] = &[
    ("cilium.io", "CiliumNetworkPolicy"),
    ("cilium.io", "CiliumClusterwideNetworkPolicy"),
    ("cloud.google.com", "ComputeClass"),
    ("networking.istio.io", "Sidecar"),
];

/// Returns the level, the message, and the remedy if the owner of `object` may expect that Lockgate reads it.
pub fn unread(object: &Unread) -> Option<(Level, String, String)> {
    let Unread { api_version, kind, .. } = object;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let changed_letters =
        |known: &Kind| strsim::damerau_levenshtein(&known.info().name.to_lowercase(), &kind.to_lowercase());
    let is_similar = |known: &&Kind| {
        let info = known.info();
        let may_lack_group = (group.is_empty() || group == "extensions") && !info.group.is_empty();
        match changed_letters(known) {
            0 => info.group == group || may_lack_group,
            letters => info.group == group && letters <= MISSPELLED,
        }
    };
    let is_read = Kind::ALL.iter().any(|known| known.is(api_version, kind));
    let similar = Kind::ALL.iter().filter(is_similar).min_by_key(|known| changed_letters(known));
    if let Some(known) = similar.filter(|_| !is_read) {
        let message = format!("kind {kind:?} of {api_version:?} does not exist");
        let remedy = format!("Write apiVersion: {} and kind: {}.", known.api_version(), known.as_str());
        return Some((Level::Error, message, remedy));
    }
    if is_read {
        // The translation reads the kind, and has no use for this object, such as a Secret without a certificate.
        return None;
    }
    if group == gateway::GROUP || group == "gateway.networking.x-k8s.io" {
        let message = format!("kind {kind:?} of Gateway API ({version}) is not supported");
        let remedy = "Remove the object if nothing else reads it; docs/gateway-api.md lists the supported kinds.";
        return Some((Level::Warning, message, remedy.to_owned()));
    }
    of_another_controller(group, kind, RESTRICTING.contains(&(group, kind.as_str())))
}

/// Returns the level, the message, and the remedy for an object of another ingress controller that has no effect here. `restricts`:
/// its purpose is to restrict access.
pub fn of_another_controller(group: &str, kind: &str, restricts: bool) -> Option<(Level, String, String)> {
    let (_, controller) = CONTROLLERS.iter().find(|(of, _)| *of == group)?;
    if OTHERS.contains(&(group, kind)) {
        return None;
    }
    if restricts {
        let message = format!("kind {kind:?} is a policy of {controller}, which Lockgate does not enforce");
        let remedy = "If it is for a route of Lockgate, write an HTTPPolicy instead: docs/policies.md. Otherwise, check these \
                      manifests separately.";
        return Some((Level::Error, message, remedy.to_owned()));
    }
    let message = format!("kind {kind:?} is a resource of {controller}");
    Some((Level::Note, message, replacement(kind).to_owned()))
}

/// Returns the remedy for a kind of another controller, by its purpose.
fn replacement(kind: &str) -> &'static str {
    let ends_with = |ends: &[&str]| ends.iter().any(|end| kind.ends_with(end));
    match kind {
        _ if ends_with(&["UDP", "UDPIngress"]) => "If Lockgate is to serve it, write a UDPRoute instead.",
        _ if ends_with(&["TCP", "TCPIngress", "TCPMapping", "TransportServer", "ApisixStreamRoute"]) => {
            "If Lockgate is to serve it, write a TCPRoute or a TLSRoute instead."
        }
        _ if ends_with(&[
            "Proxy",
            "IngressRoute",
            "VirtualServer",
            "VirtualServerRoute",
            "VirtualService",
            "Mapping",
            "Route",
        ]) && kind != "EnvoyProxy" =>
        {
            "If Lockgate is to serve it, write an Ingress or an HTTPRoute instead."
        }
        "Gateway" | "Host" | "Listener" => "If Lockgate is to serve it, write a Gateway of Gateway API instead.",
        _ if ends_with(&[
            "Middleware",
            "MiddlewareTCP",
            "Plugin",
            "ClusterPlugin",
            "Policy",
            "Filter",
            "Consumer",
            "PluginConfig",
        ]) =>
        {
            "If a route of Lockgate needs the same, use a filter of an HTTPRoute or an HTTPPolicy: docs/policies.md."
        }
        _ if ends_with(&[
            "DestinationRule",
            "ServersTransport",
            "BackendConfig",
            "Resolver",
            "Upstream",
            "TraefikService",
            "Backend",
        ]) =>
        {
            "If a backend of Lockgate needs the same, use annotations of its Service or a BackendTLSPolicy: docs/annotations.md."
        }
        _ => "No action is needed, unless a route of Lockgate depends on it.",
    }
}

/// Returns whether a document without a kind is a file of Kustomize or Helm, by the name of its file.
pub fn is_of_another_program(file: &str, document: &Value) -> bool {
    let name = Path::new(file).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_values =
        stem.strip_prefix("values").is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']));
    let is_named = matches!(stem, "kustomization" | "Chart" | "requirements") || is_values || stem.ends_with("-values");
    is_named && document.get("kind").is_none()
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
        assert_eq!(is("projectcontour.io/v1alpha1", "ContourConfiguration").0, Level::Note);
    }

    #[test]
    fn misspelled_kinds_are_errors() {
        for (api_version, kind, meant) in [
            ("networking.k8s.io/v1", "Ingres", "Ingress"),
            ("networking.k8s.io/v1", "IngressClas", "IngressClass"),
            ("gateway.networking.k8s.io/v1", "HttpRoute", "HTTPRoute"),
            ("gateway.networking.k8s.io/v1", "HTPRoute", "HTTPRoute"),
            ("v1", "Sevrice", "Service"),
        ] {
            let (level, remedy) = judged(api_version, kind).unwrap();
            assert_eq!(level, Level::Error, "{kind}");
            assert!(remedy.ends_with(&format!("kind: {meant}.")), "{kind}: {remedy}");
        }
    }

    #[test]
    fn policies_of_other_controllers_that_restrict_access_are_errors() {
        assert_eq!(judged("k8s.nginx.org/v1", "Policy").unwrap().0, Level::Error);
        assert_eq!(judged("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"), None, "it is read");
        let of =
            |restricts| of_another_controller("gateway.envoyproxy.io", "ClientTrafficPolicy", restricts).unwrap().0;
        assert_eq!([of(true), of(false)], [Level::Error, Level::Note]);
        assert_eq!(judged("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy").unwrap().0, Level::Note);
        assert_eq!(judged("traefik.io/v1alpha1", "Middleware").unwrap().0, Level::Note);
    }

    #[test]
    fn the_remedy_fits_the_kind() {
        for (api_version, kind, part) in [
            ("traefik.io/v1alpha1", "IngressRoute", "an Ingress or an HTTPRoute"),
            ("k8s.nginx.org/v1", "VirtualServerRoute", "an Ingress or an HTTPRoute"),
            ("networking.istio.io/v1", "VirtualService", "an Ingress or an HTTPRoute"),
            ("traefik.io/v1alpha1", "IngressRouteTCP", "a TCPRoute or a TLSRoute"),
            ("configuration.konghq.com/v1beta1", "UDPIngress", "a UDPRoute"),
            ("networking.istio.io/v1", "Gateway", "a Gateway of Gateway API"),
            ("route.openshift.io/v1", "Route", "an Ingress or an HTTPRoute"),
            ("cloud.google.com/v1", "BackendConfig", "annotations of its Service"),
            ("traefik.io/v1alpha1", "Middleware", "a filter of an HTTPRoute or an HTTPPolicy"),
            ("gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy", "a filter of an HTTPRoute or an HTTPPolicy"),
            ("networking.istio.io/v1", "DestinationRule", "annotations of its Service"),
            ("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy", "No action is needed"),
            ("traefik.io/v1alpha1", "TLSOption", "No action is needed"),
        ] {
            let (_, remedy) = judged(api_version, kind).unwrap();
            assert!(remedy.contains(part), "{kind}: {remedy}");
        }
    }

    #[test]
    fn files_of_kustomize_and_helm_are_known_by_name() {
        let is_skipped = |file: &str, document: Value| is_of_another_program(file, &document);
        for file in [
            "kustomization.yaml",
            "a/kustomization.yml",
            "Chart.yaml",
            "values.yaml",
            "a/values-prod.yaml",
            "values.schema.json",
            "prod-values.yaml",
        ] {
            assert!(is_skipped(file, serde_json::json!({"apiVersion": "v2"})), "{file}");
            assert!(!is_skipped(file, serde_json::json!({"kind": "Ingress"})), "{file}");
        }
        for file in ["-", "shop.yaml", "valuestore.yaml"] {
            assert!(!is_skipped(file, serde_json::json!({})), "{file}");
        }
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
            ("cilium.io/v2", "CiliumClusterwideNetworkPolicy"),
            ("security.istio.io/v1", "AuthorizationPolicy"),
            ("v1", "ServiceAccount"),
            ("v1", "Event"),
            ("v1", "Node"),
            ("coordination.k8s.io/v1", "Lease"),
            ("networking.k8s.io/v1", "IPAddress"),
            ("networking.k8s.io/v1", "ServiceCIDR"),
        ] {
            assert_eq!(judged(api_version, kind), None, "{kind}");
        }
    }
}
