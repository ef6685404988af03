//! The attackers: a tenant with edit permissions in its own namespace, and a terminating namespace.

use bytes::Bytes;
use e2e::attacks::undecodable::CONTENT_TYPE;
use e2e::lab::{Namespace, echo};
use e2e::{Authority, Lab, Target};
use hyper::Method;
use serde_json::json;

use super::victim::{CLASS, INHERITED, OWN, Victim, warning};

/// An Ingress of the attacker that is older than the objects of the victim.
pub const ELDER: &str = "elder";

/// The namespace of the attacker.
pub struct Tenant<'a> {
    pub space: Namespace<'a>,
    /// The authority of the attacker's certificates. Clients of the victim do not trust it.
    pub authority: Authority,
    api: Target,
}

impl<'a> Tenant<'a> {
    pub async fn new(lab: &'a Lab) -> Self {
        let space = lab.namespace("attacker").await;
        let account = format!("--serviceaccount={}:default", space.name);
        space.kubectl(&["create", "rolebinding", "edit", "--clusterrole=edit", &account], "").await;
        // Since Kubernetes 1.22, the role `edit` does not include these permissions. Some clusters grant them.
        let slices = ["create", "role", "slices", "--verb=*", "--resource=endpointslices.discovery.k8s.io"];
        space.kubectl(&slices, "").await;
        space.kubectl(&["create", "rolebinding", "slices", "--role=slices", &account], "").await;
        // `kubectl create role` refuses kinds that are not installed yet.
        let rule = |group: &str, kind: &str| format!("{{ apiGroups: [{group}], resources: [{kind}], verbs: ['*'] }}");
        let rules = [rule("gateway.networking.k8s.io", "httproutes"), rule("lockgate.dev", "httppolicies")].join(", ");
        let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: { name: routes }\n";
        space.apply(&format!("{role}rules: [{rules}]\n")).await;
        space.kubectl(&["create", "rolebinding", "routes", "--role=routes", &account], "").await;
        // The backend of stolen requests.
        space.apply(&echo("trap").yaml()).await;
        space.endpoints("trap", 1).await;
        space.apply(&ingress(ELDER, "elder.attacker.test", &path("/", "Prefix", "trap"), "")).await;
        let token = space.kubectl(&["create", "token", "default"], "").await;
        Self { space, authority: Authority::new(), api: lab.api_with_token(token.trim()) }
    }

    /// Runs `kubectl apply` with the permissions of the tenant.
    pub async fn apply(&self, yaml: &str) {
        let user = format!("--as=system:serviceaccount:{}:default", self.space.name);
        self.space.kubectl(&["apply", "--server-side", &user, "-f", "-"], yaml).await;
    }

    /// Creates an object in protobuf at this path below `/apis/GROUP/VERSION/` or `/api/v1/`.
    pub async fn post(&self, api: &str, resource: &str, object: Vec<u8>) {
        let path = format!("{api}/namespaces/{}/{resource}", self.space.name);
        let api = self.api.clone().field("content-type", CONTENT_TYPE);
        let answer = api.send(Method::POST, &path, Bytes::from(object)).await.expect("an answer of the API server");
        assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.text());
    }

    /// Returns the manifest of a Secret with a certificate for these hosts.
    pub fn secret(&self, name: &str, hosts: &[&str]) -> String {
        self.authority.issue(hosts).secret(&self.space.name, name)
    }

    /// Waits for a warning on an object of the tenant that contains all `parts`.
    pub async fn wait_warned(&self, object: &str, parts: &[&str]) {
        let (lab, name) = (self.space.lab(), &self.space.name);
        let warned = async || {
            let events = lab.list(&format!("/apis/events.k8s.io/v1/namespaces/{name}/events")).await;
            let of_object = events.iter().filter(|event| event["regarding"]["name"] == object).filter_map(warning);
            of_object.into_iter().find(|text| parts.iter().all(|part| text.contains(part)))
        };
        let (note, time) = lab.until(&format!("a warning on {object} with {parts:?}"), warned).await;
        let note: String = note.chars().take(140).collect();
        println!("    {note} ({:.1} s)", time.as_secs_f64());
    }
}

/// A namespace with the oldest Ingress of a host. Finalizers keep its Ingresses while it terminates.
pub struct Leaving<'a> {
    space: Namespace<'a>,
}

impl<'a> Leaving<'a> {
    pub async fn new(lab: &'a Lab) -> Self {
        let space = lab.namespace("leaving").await;
        let object = ingress("held", INHERITED.name, &path("/", "Prefix", "gone"), "");
        space.apply(&object.replace("name: held", "name: held, finalizers: [example.com/held]")).await;
        Self { space }
    }

    /// Starts the termination of the namespace. Then adds hosts of the victim to its Ingress.
    pub async fn terminate(&self, victim: &Victim<'_>) {
        self.space.kubectl(&["delete", "namespace", &self.space.name, "--wait=false"], "").await;
        println!("    the host is inherited after {:.1} s", victim.wait_served(INHERITED).await.as_secs_f64());
        let backend = json!({ "service": { "name": "gone", "port": { "name": "http" } } });
        let paths = json!([{ "path": "/", "pathType": "Exact", "backend": backend },
            { "path": "/.*", "pathType": "ImplementationSpecific", "backend": backend }]);
        let hosts = [INHERITED.name, OWN, "change-0.wild.victim.test", "*.platform.test"];
        let rules = hosts.map(|host| json!({ "host": host, "http": { "paths": paths } }));
        let patch = json!({ "spec": { "rules": rules, "defaultBackend": backend } }).to_string();
        self.space.kubectl(&["patch", "ingress", "held", "--type=merge", "--patch", &patch], "").await;
    }

    /// Removes the finalizers.
    pub async fn release(&self) {
        let patch = json!({ "metadata": { "finalizers": null } }).to_string();
        self.space.kubectl(&["patch", "ingress", "held", "--type=merge", "--patch", &patch], "").await;
    }
}

/// Formats an Ingress for a host. `extra` is an additional field of its spec.
pub fn ingress(name: &str, host: &str, paths: &str, extra: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name} }}\nspec:\n  ingressClassName: {CLASS}\n  \
         {extra}\n  rules: [{{ host: \"{host}\", http: {{ paths: [{paths}] }} }}]\n"
    )
}

/// Formats a path to port `http` of a Service.
pub fn path(path: &str, kind: &str, service: &str) -> String {
    format!(
        "{{ path: '{path}', pathType: {kind}, backend: {{ service: {{ name: {service}, port: {{ name: http }} }} }} }}"
    )
}

/// Formats a TLS entry.
pub fn tls(host: &str, secret: &str) -> String {
    format!("tls: [{{ hosts: [\"{host}\"], secretName: {secret} }}]")
}
