//! Objects that are assumed to exist, so that manifests can be checked without them: classes, Gateways, and the Services of
//! Gateways.
//!
//! The manifests of an application contain its Ingresses and routes, and rarely the class or the Gateway. Without them, no route
//! would be served, and the check would find nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::objects::gateway::{
    AllowedNamespaces, AllowedRoutes, GROUP, Gateway, GatewayClass, GatewayClassSpec, GatewayClassStatus,
    GatewayListener, GatewaySpec, GatewayStatus, HttpPolicy, ListenerTls,
};
use lockgate_route::objects::{
    GatewayService, IngressClass, Kind, Meta, Object, ObjectId, ObjectKey, Objects, Service, Transport,
};
use lockgate_route::settings::Settings;
use lockgate_route::translate::gateway::{TARGET_PORTS, service_key};
use lockgate_route::translate::{CLASS_FIELD, DIALECTS, Selection, annotated_class, default_class};

use super::Scope;

/// The name of the assumed GatewayClass of assumed Gateways.
const CLASS: &str = "lockgate.dev-assumed";

/// The assumed objects, and the objects that refer to them.
#[derive(Debug, Default)]
pub struct Assumed {
    /// For each object that refers to an assumed one: the field of the reference, and the assumed object.
    pub references: Vec<(ObjectId, String, ObjectId)>,
    /// Whether Ingresses without a class are assumed to be served.
    pub is_classless_served: bool,
}

impl Assumed {
    /// Adds the assumed objects to `objects`, and the assumed classes to `settings`.
    /// With `gateway_classes`, Lockgate serves these GatewayClasses only.
    pub fn add(
        objects: &mut Objects,
        settings: &mut Settings,
        scope: &Scope,
        gateway_classes: &BTreeSet<String>,
    ) -> Self {
        let mut assumed = Self::default();
        gateway_classes.iter().for_each(|name| serve_class(objects, settings, ObjectKey::new("", name)));
        if matches!(scope, Scope::Part) {
            assumed.ingress_classes(objects, settings);
            assumed.gateways(objects);
            if gateway_classes.is_empty() {
                assumed.gateway_classes(objects, settings);
            } else {
                serve_class(objects, settings, ObjectKey::new("", CLASS));
            }
        }
        if !matches!(scope, Scope::Complete) {
            gateway_services(objects);
        }
        assumed
    }

    /// Adds the GatewayClasses that Gateways name, and the Services of Gateways.
    pub fn add_infrastructure(&mut self, objects: &mut Objects, settings: &Settings) {
        self.gateway_classes(objects, settings);
        gateway_services(objects);
    }

    /// Serves objects of classes that are not in the manifests, unless the settings name classes.
    fn ingress_classes(&mut self, objects: &Objects, settings: &mut Settings) {
        // With a default class, the API server sets the class of a new Ingress.
        if default_class(objects).is_none() {
            self.is_classless_served = !settings.ingress.classless;
            settings.ingress.classless = true;
        }
        if !settings.ingress.class_names.is_empty() {
            return;
        }
        let mut names = BTreeSet::new();
        for dialect in &DIALECTS {
            let Selection::Class { named, .. } = dialect.selection else { continue };
            for object in objects.of_kind(dialect.kind).values() {
                let Some(class) = named(object) else { continue };
                let key = ObjectKey::new("", class);
                if objects.get::<IngressClass>(&key).is_some() {
                    continue;
                }
                names.insert(class.to_owned());
                let by_annotation = annotated_class(object.meta()).is_some();
                let field = if by_annotation { "metadata.annotations" } else { CLASS_FIELD };
                self.refer(object.id(), field.to_owned(), Kind::INGRESS_CLASS.id(key));
            }
        }
        settings.ingress.class_names.extend(names);
    }

    /// Adds the Gateways that routes and policies name, with a listener for each name, port, and protocol.
    fn gateways(&mut self, objects: &mut Objects) {
        let mut missing = BTreeMap::<ObjectKey, BTreeSet<Wanted>>::new();
        for dialect in &DIALECTS {
            let Selection::Parents { of, protocol } = dialect.selection else { continue };
            for object in objects.of_kind(dialect.kind).values() {
                for (index, parent) in of(object).iter().enumerate() {
                    let is_gateway = parent.group.as_deref().unwrap_or(GROUP) == GROUP
                        && parent.kind.as_deref().unwrap_or("Gateway") == Kind::GATEWAY.as_str();
                    let namespace = parent.namespace.as_deref().unwrap_or(&object.meta().key.namespace);
                    let key = ObjectKey::new(namespace, &parent.name);
                    if !is_gateway || objects.get::<Gateway>(&key).is_some() {
                        continue;
                    }
                    let field = format!("spec.parentRefs[{index}].name");
                    self.refer(object.id(), field, Kind::GATEWAY.id(key.clone()));
                    missing.entry(key).or_default().insert((protocol, parent.section_name.clone(), parent.port));
                }
            }
        }
        for policy in objects.all::<HttpPolicy>() {
            for (index, target) in policy.spec.target_refs.iter().enumerate() {
                let key = ObjectKey::new(&policy.meta.key.namespace, &target.name);
                let is_gateway = target.group == GROUP && target.kind == Kind::GATEWAY.as_str();
                if !is_gateway || objects.get::<Gateway>(&key).is_some() {
                    continue;
                }
                let field = format!("spec.targetRefs[{index}].name");
                self.refer(Kind::HTTP_POLICY.id(policy.meta.key.clone()), field, Kind::GATEWAY.id(key.clone()));
                let section = target.section_name.as_deref().map(ToOwned::to_owned);
                missing.entry(key).or_default().insert(("HTTP", section, None));
            }
        }
        for (key, wanted) in missing {
            let spec = GatewaySpec {
                gateway_class_name: CLASS.to_owned(),
                listeners: listeners(&wanted),
                ..GatewaySpec::default()
            };
            let status = GatewayStatus::default();
            objects.apply(Object::new(Gateway { meta: meta(key), spec, status, version: "".into() }));
        }
    }

    /// Adds the GatewayClasses that Gateways name, with our controller.
    fn gateway_classes(&mut self, objects: &mut Objects, settings: &Settings) {
        let mut missing = BTreeSet::new();
        for gateway in objects.all::<Gateway>() {
            let key = ObjectKey::new("", &gateway.spec.gateway_class_name);
            if objects.get::<GatewayClass>(&key).is_some() {
                continue;
            }
            if &*key.name != CLASS {
                let field = "spec.gatewayClassName".to_owned();
                let id = Kind::GATEWAY.id(gateway.meta.key.clone());
                self.refer(id, field, Kind::GATEWAY_CLASS.id(key.clone()));
            }
            missing.insert(key);
        }
        missing.into_iter().for_each(|key| serve_class(objects, settings, key));
    }

    fn refer(&mut self, from: ObjectId, field: String, to: ObjectId) {
        self.references.push((from, field, to));
    }
}

/// Adds a GatewayClass with the controller of Lockgate, or sets the controller of an existing one.
fn serve_class(objects: &mut Objects, settings: &Settings, key: ObjectKey) {
    let controller_name = settings.gateway.controller.clone();
    let class = match objects.get::<GatewayClass>(&key).cloned() {
        Some(class) => GatewayClass { spec: GatewayClassSpec { controller_name, ..class.spec }, ..class },
        None => {
            let spec = GatewayClassSpec { controller_name, parameters_ref: None };
            GatewayClass { meta: meta(key), spec, status: GatewayClassStatus::default(), version: "".into() }
        }
    };
    objects.apply(Object::new(class));
}

/// The protocol, the name, and the port of a listener that an object names.
type Wanted = (&'static str, Option<String>, Option<u16>);

/// Returns listeners for the wanted protocols, names, and ports. Ports that no route names are numbered from 1.
fn listeners(wanted: &BTreeSet<Wanted>) -> Vec<GatewayListener> {
    let mut taken: BTreeSet<u16> = wanted.iter().filter_map(|(_, _, port)| *port).collect();
    let mut names = BTreeSet::new();
    let mut listeners = Vec::new();
    for (protocol, name, port) in wanted {
        let free = || (1..=u16::MAX).find(|port| !taken.contains(port)).unwrap_or(u16::MAX);
        let port = port.unwrap_or_else(free);
        taken.insert(port);
        let name = name.clone().unwrap_or_else(|| format!("{}-{port}", protocol.to_lowercase()));
        if !names.insert(name.clone()) {
            continue;
        }
        let namespaces = AllowedNamespaces { from: Some("All".to_owned()), selector: None };
        listeners.push(GatewayListener {
            name: name.into(),
            hostname: None,
            port,
            protocol: (*protocol).to_owned(),
            tls: (*protocol == "TLS").then(passthrough),
            allowed_routes: Some(AllowedRoutes { namespaces: Some(namespaces), kinds: Vec::new() }),
        });
    }
    listeners
}

fn passthrough() -> ListenerTls {
    ListenerTls { mode: Some("Passthrough".to_owned()), ..ListenerTls::default() }
}

/// Adds the Services that the leader would create for Gateways. Each Gateway gets its own ports, so that different
/// Gateways do not conflict.
fn gateway_services(objects: &mut Objects) {
    let mut services = Vec::new();
    let of_gateways = objects.all::<Service>().filter_map(|service| service.gateway.as_deref());
    let taken: BTreeSet<u16> =
        of_gateways.flat_map(|service| service.ports.iter().map(|(.., target)| *target)).collect();
    let mut targets = TARGET_PORTS.filter(|port| !taken.contains(port));
    for gateway in objects.all::<Gateway>() {
        let key = service_key(&gateway.meta.key, &gateway.spec.gateway_class_name);
        if objects.get::<Service>(&key).is_some() {
            continue;
        }
        let transport = |protocol: &str| if protocol == "UDP" { Transport::Udp } else { Transport::Tcp };
        let places = gateway.spec.listeners.iter().map(|listener| (transport(&listener.protocol), listener.port));
        let places: BTreeSet<(Transport, u16)> = places.collect();
        let ports = places.into_iter().zip(&mut targets).map(|((transport, port), target)| (transport, port, target));
        let ports = ports.collect();
        let of_gateway = GatewayService { name: gateway.meta.key.name.clone(), ports, ..GatewayService::default() };
        services.push(Object::new(Service {
            meta: meta(key),
            external_name: None,
            ports: Vec::new(),
            ipv6_families: Vec::new(),
            prefers_close: false,
            is_of_fleet: false,
            gateway: Some(Box::new(of_gateway)),
        }));
    }
    for service in services {
        objects.apply(service);
    }
}

/// Returns the metadata of an assumed object: it is the youngest.
pub fn meta(key: ObjectKey) -> Meta {
    Meta {
        key,
        uid: Arc::from(""),
        generation: 0,
        created: i64::MAX,
        terminating: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    }
}
