//! Builders of objects, and queries of a translation.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec, IngressTLS,
    ServiceBackendPort,
};

use super::model::Shared as _;
use crate::model::{Action, Host, KeyPair, Model, PathMatch, Route, VirtualHostRoutes};
use crate::objects::{
    AddressType, CLAIM_SHARDS, CredentialKind, Credentials, EndpointSlice, HostClaims, Ingress, IngressClass, Meta,
    Namespace, Object, ObjectKey, Objects, Secret, Service, ServicePort, SliceEndpoint, claim_key, claim_shard,
};
use crate::settings::{NamespaceOwnership, Settings};
use crate::translate::{Translation, host, translate};

/// Returns the metadata of `shop/name`, created at `0`.
pub fn meta(name: &str) -> Meta {
    let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
    Meta {
        key: ObjectKey::new(namespace, name),
        uid: "".into(),
        generation: 1,
        created: 0,
        terminating: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    }
}

/// Adds the methods that all builders share.
macro_rules! with_meta {
    ($builder:ty) => {
        impl $builder {
            /// Adds an annotation.
            pub fn annotation(mut self, key: &str, value: &str) -> Self {
                self.0.meta.annotations.insert(key.to_owned(), value.to_owned());
                self
            }

            /// Adds a label.
            pub fn label_of_object(mut self, key: &str, value: &str) -> Self {
                self.0.meta.labels.insert(key.into(), value.into());
                self
            }

            /// Sets the creation time in seconds.
            pub fn created(mut self, created: i64) -> Self {
                self.0.meta.created = created;
                self
            }

            /// Marks the object as being deleted.
            pub fn terminating(mut self) -> Self {
                self.0.meta.terminating = true;
                self
            }
        }

        impl From<$builder> for Object {
            fn from(builder: $builder) -> Self {
                Object::new(builder.0)
            }
        }
    };
}

/// An Ingress of class `ours`.
#[derive(Clone)]
pub struct IngressBuilder(Ingress);
with_meta!(IngressBuilder);

/// Starts the Ingress `shop/name` of class `ours`, or `name` if it has a namespace.
pub fn ingress(name: &str) -> IngressBuilder {
    let spec = IngressSpec { ingress_class_name: Some("ours".to_owned()), ..IngressSpec::default() };
    IngressBuilder(Ingress { meta: meta(name), spec, status: Default::default() })
}

impl IngressBuilder {
    /// Sets the namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.meta.key.namespace = namespace.into();
        self
    }

    pub fn class(mut self, class: Option<&str>) -> Self {
        self.0.spec.ingress_class_name = class.map(str::to_owned);
        self
    }

    /// Adds a rule, to which the following paths belong. An empty host is no host.
    pub fn host(mut self, host: &str) -> Self {
        let host = Some(host.to_owned()).filter(|host| !host.is_empty());
        self.0.spec.rules.get_or_insert_default().push(IngressRule { host, http: None });
        self
    }

    /// Adds a path to the last rule, with the backend `service:port`, `service:portname`, or the resource `kind/name`.
    pub fn path(mut self, path_type: &str, path: &str, to: &str) -> Self {
        let rule = self.0.spec.rules.get_or_insert_default().last_mut().expect("a rule");
        rule.http.get_or_insert(HTTPIngressRuleValue { paths: Vec::new() }).paths.push(HTTPIngressPath {
            path: Some(path.to_owned()),
            path_type: path_type.to_owned(),
            backend: backend(to),
        });
        self
    }

    pub fn default_backend(mut self, to: &str) -> Self {
        self.0.spec.default_backend = Some(backend(to));
        self
    }

    /// Adds a TLS entry. An empty secret is no secret.
    pub fn tls(mut self, hosts: &[&str], secret: &str) -> Self {
        self.0.spec.tls.get_or_insert_default().push(IngressTLS {
            hosts: Some(hosts.iter().map(|host| (*host).to_owned()).collect()),
            secret_name: Some(secret.to_owned()).filter(|name| !name.is_empty()),
        });
        self
    }
}

/// Parses a backend: `service:8080`, `service:name`, `kind/name` for a resource, or an empty text for none.
pub fn backend(to: &str) -> IngressBackend {
    if let Some((kind, name)) = to.split_once('/') {
        let resource = TypedLocalObjectReference { api_group: None, kind: kind.to_owned(), name: name.to_owned() };
        return IngressBackend { resource: Some(resource), service: None };
    }
    let Some((name, port)) = to.split_once(':') else { return IngressBackend::default() };
    let port = match port.parse() {
        Ok(number) => ServiceBackendPort { number: Some(number), name: None },
        Err(_) => ServiceBackendPort { number: None, name: Some(port.to_owned()) },
    };
    IngressBackend { resource: None, service: Some(IngressServiceBackend { name: name.to_owned(), port: Some(port) }) }
}

/// Returns a Namespace that is being deleted or not.
pub fn namespace(name: &str, terminating: bool) -> Object {
    let key = ObjectKey::new("", name);
    Object::new(Namespace { meta: Meta { key, terminating, ..meta(name) }, labels: BTreeMap::new() })
}

/// Returns the ConfigMaps with these claims: the host and the namespace of each.
pub fn claims(list: &[(&str, &str)]) -> Vec<Object> {
    let mut shards: BTreeMap<usize, BTreeMap<String, String>> =
        (0..CLAIM_SHARDS).map(|at| (at, BTreeMap::new())).collect();
    for (text, namespace) in list {
        let host = host_of(text);
        shards.entry(claim_shard(&host)).or_default().insert(claim_key(&host), (*namespace).to_owned());
    }
    let object = |(shard, data)| {
        let meta = meta(&format!("lockgate/lockgate-claims-{shard}"));
        Object::new(HostClaims::new(meta, "1".into(), &data).expect("a number"))
    };
    shards.into_iter().map(object).collect()
}

/// A Service.
pub struct ServiceBuilder(Service);
with_meta!(ServiceBuilder);

/// Starts the Service `shop/name` without ports.
pub fn service(name: &str) -> ServiceBuilder {
    ServiceBuilder(Service {
        meta: meta(name),
        external_name: None,
        ports: Vec::new(),
        ipv6_families: Vec::new(),
        prefers_close: false,
        is_of_fleet: false,
        gateway: None,
    })
}

impl ServiceBuilder {
    /// Adds a TCP port.
    pub fn port(self, name: &str, number: u16) -> Self {
        self.port_of("TCP", name, number)
    }

    pub fn port_of(mut self, protocol: &str, name: &str, port: u16) -> Self {
        self.0.ports.push(ServicePort { name: name.into(), port, protocol: protocol.into(), app_protocol: None });
        self
    }

    /// Sets the `appProtocol` of the last port.
    pub fn app_protocol(mut self, protocol: &str) -> Self {
        self.0.ports.last_mut().expect("a port").app_protocol = Some(protocol.into());
        self
    }

    pub fn external(mut self, name: &str) -> Self {
        self.0.external_name = Some(name.to_owned());
        self
    }

    pub fn ipv6_families(mut self, families: &[bool]) -> Self {
        self.0.ipv6_families = families.to_vec();
        self
    }

    pub fn prefers_close(mut self, prefers: bool) -> Self {
        self.0.prefers_close = prefers;
        self
    }
}

/// An EndpointSlice.
pub struct SliceBuilder(EndpointSlice);
with_meta!(SliceBuilder);

/// Starts the IPv4 EndpointSlice `name` of the Service `shop/service`.
pub fn slice(name: &str, service: &str) -> SliceBuilder {
    SliceBuilder(EndpointSlice {
        meta: meta(name),
        service: service.into(),
        address_type: AddressType::Ipv4,
        ports: Vec::new(),
        endpoints: Vec::new(),
    })
}

impl SliceBuilder {
    pub fn address_type(mut self, address_type: AddressType) -> Self {
        self.0.address_type = address_type;
        self
    }

    pub fn port(mut self, name: &str, number: u16) -> Self {
        self.0.ports.push((name.into(), Some(number)));
        self
    }

    /// Adds a ready endpoint.
    pub fn ready(self, address: &str) -> Self {
        self.endpoint(address, [true, true, false])
    }

    /// Adds an endpoint with these values of `ready`, `serving`, and `terminating`.
    pub fn endpoint(mut self, address: &str, [ready, serving, terminating]: [bool; 3]) -> Self {
        let (address, zone, node) = (address.into(), "".into(), "".into());
        self.0.endpoints.push(SliceEndpoint { address, ready, serving, terminating, zone, node, pod: None });
        self
    }

    /// Sets the zone of the last endpoint.
    pub fn zone(mut self, zone: &str) -> Self {
        self.0.endpoints.last_mut().expect("an endpoint").zone = zone.into();
        self
    }

    /// Sets the node of the last endpoint.
    pub fn node(mut self, node: &str) -> Self {
        self.0.endpoints.last_mut().expect("an endpoint").node = node.into();
        self
    }

    /// Sets the pod of the last endpoint.
    pub fn pod(mut self, pod: &str) -> Self {
        self.0.endpoints.last_mut().expect("an endpoint").pod = Some(pod.into());
        self
    }
}

/// An IngressClass.
pub struct ClassBuilder(IngressClass);
with_meta!(ClassBuilder);

/// Starts an IngressClass of Lockgate's controller.
pub fn class(name: &str) -> ClassBuilder {
    let mut meta = meta(name);
    meta.key.namespace = "".into();
    ClassBuilder(IngressClass { meta, controller: Settings::default().ingress.controller })
}

impl ClassBuilder {
    pub fn controller(mut self, controller: &str) -> Self {
        self.0.controller = controller.to_owned();
        self
    }

    pub fn default_class(self) -> Self {
        self.annotation("ingressclass.kubernetes.io/is-default-class", "true")
    }
}

/// A Secret.
pub struct SecretBuilder(Secret);
with_meta!(SecretBuilder);

/// Starts the Secret `shop/name` with a good certificate for these names.
pub fn secret(name: &str, names: &[&str]) -> SecretBuilder {
    let pair = KeyPair {
        certificate_chain: name.as_bytes().to_vec(),
        private_key: Vec::new(),
        names: names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        not_after: i64::MAX,
        is_ed25519: false,
    };
    let (pair, authorities_fault) = (Some(Arc::new(pair)), Some("data[\"ca.crt\"] is missing".into()));
    SecretBuilder(Secret {
        meta: meta(name),
        pair,
        early: None,
        expired: None,
        fault: None,
        authorities: None,
        authorities_fault,
        revocations: None,
        credentials: None,
        key_sets: Box::default(),
        client_secret: None,
    })
}

impl SecretBuilder {
    /// Marks the current content as faulty; the last good pair is still known.
    pub fn fault(mut self, fault: &str) -> Self {
        self.0.fault = Some(fault.to_owned());
        self
    }

    /// Sets the size of the certificate chain in bytes.
    pub fn chain_bytes(mut self, bytes: usize) -> Self {
        self.0.pair.iter_mut().for_each(|pair| Arc::make_mut(pair).certificate_chain = vec![b'x'; bytes]);
        self
    }

    /// Uses an Ed25519 key.
    pub fn ed25519(mut self) -> Self {
        self.0.pair.iter_mut().for_each(|pair| Arc::make_mut(pair).is_ed25519 = true);
        self
    }

    /// Sets the authorities.
    pub fn authorities(mut self, authorities: &str) -> Self {
        (self.0.authorities, self.0.authorities_fault) = (Some(authorities.into()), None);
        self
    }

    /// Sets the revocation lists.
    pub fn revocations(mut self, revocations: &str) -> Self {
        self.0.revocations = Some(Ok(revocations.into()));
        self
    }

    /// Adds the password of a user.
    pub fn password(self, user: &str) -> Self {
        self.credential(CredentialKind::Passwords, user, &format!("{{SHA}}{user}"))
    }

    /// Adds the API key of a client.
    pub fn api_key(self, client: &str, key: &str) -> Self {
        self.credential(CredentialKind::ApiKeys, client, key)
    }

    fn credential(mut self, kind: CredentialKind, client: &str, credential: &str) -> Self {
        let none = || Arc::new(Credentials { kind, clients: Vec::new(), faults: Vec::new() });
        let credentials = Arc::make_mut(self.0.credentials.get_or_insert_with(none));
        credentials.clients.push((client.into(), credential.into()));
        self
    }

    /// Applies any other change to the credentials.
    pub fn with_credentials(mut self, change: impl Fn(&mut Credentials)) -> Self {
        self.0.credentials.iter_mut().for_each(|one| change(Arc::make_mut(one)));
        self
    }

    /// Adds the fault of an entry with credentials.
    pub fn credential_fault(mut self, fault: &str) -> Self {
        let credentials = self.0.credentials.iter_mut();
        credentials.for_each(|credentials| Arc::make_mut(credentials).faults.push(fault.to_owned()));
        self
    }

    /// Sets the secret of an application at an OpenID provider.
    pub fn client_secret(mut self, text: &str) -> Self {
        self.0.client_secret = Some(text.into());
        self
    }

    /// Removes the key pair, as if the Secret never had a usable pair.
    pub fn without_pair(mut self) -> Self {
        self.0.pair = None;
        self
    }
}

/// A set of objects: the added objects, the class `ours`, and the Services `a`, `b`, `c`, each with port `http`, 80.
pub struct World {
    pub objects: Vec<Object>,
    pub settings: Settings,
}

/// Creates a world with the objects that most tests need.
pub fn world() -> World {
    let services = ["a", "b", "c"].map(|name| service(name).port("http", 80).into());
    let mut objects = vec![class("ours").into()];
    objects.extend(services);
    World { objects, settings: Settings::default() }
}

impl World {
    pub fn with(mut self, object: impl Into<Object>) -> Self {
        self.objects.push(object.into());
        self
    }

    /// Replaces all claims. The namespaces exist.
    pub fn claimed(mut self, list: &[(&str, &str)]) -> Self {
        self.objects.extend(list.iter().map(|(_, claimant)| namespace(claimant, false)));
        self.objects.extend(claims(list));
        self
    }

    /// Makes `shop/name` the default TLS Secret.
    pub fn default_secret(mut self, name: &str) -> Self {
        self.settings.tls.default_secret = Some(("shop".to_owned(), name.to_owned()));
        self
    }

    /// Allows namespaces to share hosts.
    pub fn shared(mut self) -> Self {
        self.settings.namespace_ownership = NamespaceOwnership::InterNamespaceAllowed;
        self
    }

    pub fn translate(&self) -> Translation {
        translate(&objects(&self.objects), &self.settings)
    }

    pub fn model(&self) -> Model {
        self.translate().model
    }

    /// Returns the problems in the form of the log.
    pub fn problems(&self) -> Vec<String> {
        self.translate().problems.iter().map(|problem| problem.to_string()).collect()
    }

    /// Returns the plain-text routes of a host.
    pub fn http(&self, host: &str) -> Vec<String> {
        self.model().http().get(&host_of(host)).map(routes).unwrap_or_else(|| panic!("no virtual host {host:?}"))
    }

    /// Returns the TLS routes of a host.
    pub fn https(&self, host: &str) -> Vec<String> {
        let (model, name) = (self.model(), host_of(host));
        let tls = model.https().get(&name).unwrap_or_else(|| panic!("no TLS host {host:?}"));
        routes(tls.virtual_hosts.get(&name).unwrap_or_else(|| panic!("no virtual host {host:?}")))
    }

    /// Returns the names behind TLS, each with its Secret.
    pub fn chains(&self) -> Vec<String> {
        self.model().https().iter().map(|(host, tls)| format!("{host} {}", tls.secrets[0])).collect()
    }
}

/// Creates a store with the objects of `list`, in its order.
pub fn objects(list: &[Object]) -> Objects {
    let mut objects = Objects::default();
    for object in list {
        objects.apply(object.clone());
    }
    objects
}

fn host_of(text: &str) -> Host {
    host::parse(text).expect("a host")
}

/// Formats the routes of a host, one per line, such as `= /exact a`, `~ /regex a`, `/separated/ a`, `/string* 503`.
/// Routes for one label start with `1:`.
pub fn routes(host: &VirtualHostRoutes) -> Vec<String> {
    let one_label = |at| if at < host.one_label { "1: " } else { "" };
    host.routes.iter().enumerate().map(|(at, one)| format!("{}{}", one_label(at), route(one))).collect()
}

fn route(route: &Route) -> String {
    let path = match &route.matches.path {
        PathMatch::Exact(path) => format!("= {path}"),
        PathMatch::Regex(path) => format!("~ {path}"),
        PathMatch::SeparatedPrefix(path) => format!("{path}/"),
        PathMatch::Prefix(path) => format!("{path}*"),
    };
    let action = match &route.action {
        Action::Forward(forward) => {
            forward.clusters.iter().map(|c| c.cluster.to_string()).collect::<Vec<_>>().join("+")
        }
        Action::Redirect(redirect) => redirect.status.code().to_string(),
        Action::Respond { status, .. } => status.to_string(),
    };
    format!("{path} {action}")
}

pub(super) use with_meta;
