//! Services that are assumed to exist, with the ports that backends name.
//!
//! The translation does not check the rest of a rule without a usable backend. It reports the missing Services, so the check adds
//! them and translates again.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::objects::gateway::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
use lockgate_route::objects::{Ingress, Kind, Object, ObjectId, ObjectKey, Objects, Service, ServicePort};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::Problem;
use lockgate_route::translate::{ChangedInputs, Input, Reason, Translator};
use serde_json::Value;

use super::assumed::{Assumed, meta};
use super::{Manifests, id_of};

/// The maximum number of additional translations. Each finds at least 20 missing Services of an object, if it has as many.
const PASSES: usize = 100;

/// Adds the missing Services to `objects` and their references to `assumed`, and translates until none is missing.
pub fn assume(
    manifests: &Manifests,
    settings: &Settings,
    objects: &mut Objects,
    translator: &mut Translator,
    assumed: &mut Assumed,
) {
    for _ in 0..PASSES {
        let mut missing = BTreeMap::<ObjectKey, Vec<ServicePort>>::new();
        for problem in translator.problems() {
            let Some((id, key, port)) = missing_service(problem, objects, translator) else { continue };
            if !manifests.has_unread(Kind::SERVICE, &key) {
                assumed.references.push((id, problem.field.clone(), Kind::SERVICE.id(key.clone())));
            }
            let ports = missing.entry(key).or_default();
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        if missing.is_empty() {
            return;
        }
        let mut changed = ChangedInputs::default();
        for (key, ports) in missing {
            changed.insert(Input::new(Kind::SERVICE, key.clone()));
            let (external_name, ipv6_families, gateway) = (None, Vec::new(), None);
            let meta = meta(key);
            let service = Service { meta, external_name, ports, ipv6_families, is_of_fleet: false, gateway };
            objects.apply(Object::new(service));
        }
        translator.update(objects, settings, &changed);
    }
}

/// Returns the object, the missing Service, and its port, if the problem is a missing Service.
fn missing_service(
    problem: &Problem,
    objects: &Objects,
    translator: &Translator,
) -> Option<(ObjectId, ObjectKey, ServicePort)> {
    if problem.reason != Reason::ServiceUnresolvedReference {
        return None;
    }
    let backend = problem.field.strip_suffix(".name")?;
    let id = id_of(&problem.object)?;
    let services = translator.inputs(&id).filter(|input| input.kind() == Kind::SERVICE).map(Input::key);
    let mut missing = services.filter(|key| !objects.of_kind(Kind::SERVICE).contains_key(*key));
    let key = missing.find(|key| problem.message.contains(&format!("\"{key}\"")))?.clone();
    let port = port(objects.of_kind(id.kind).get(&id.key)?, backend)?;
    let protocol = if id.kind == Kind::UDP_ROUTE { "UDP" } else { "TCP" };
    Some((id, key, ServicePort { protocol: protocol.into(), ..port }))
}

/// Returns the port of the backend at the field `backend`.
fn port(object: &Object, backend: &str) -> Option<ServicePort> {
    let pointer = backend.strip_prefix("spec.")?.replace('[', "/").replace(']', "").replace('.', "/");
    let spec = spec(object)?;
    let port = spec.pointer(&format!("/{pointer}/port"));
    let number = port.and_then(|port| port.as_u64().or_else(|| port.get("number")?.as_u64()));
    let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
    let name: Arc<str> = port.and_then(|port| port.get("name")?.as_str()).unwrap_or_default().into();
    // A backend without a port is a separate fault, which the Service makes visible.
    Some(ServicePort { name, port: number.unwrap_or(1), protocol: "".into(), app_protocol: None })
}

fn spec(object: &Object) -> Option<Value> {
    let spec = if let Some(object) = object.get::<Ingress>() {
        serde_json::to_value(&object.spec)
    } else if let Some(object) = object.get::<HttpRoute>() {
        serde_json::to_value(&object.spec)
    } else if let Some(object) = object.get::<GrpcRoute>() {
        serde_json::to_value(&object.spec)
    } else if let Some(object) = object.get::<TlsRoute>() {
        serde_json::to_value(&object.spec)
    } else if let Some(object) = object.get::<TcpRoute>() {
        serde_json::to_value(&object.spec)
    } else if let Some(object) = object.get::<UdpRoute>() {
        serde_json::to_value(&object.spec)
    } else {
        return None;
    };
    spec.ok()
}
