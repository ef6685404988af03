//! Services that are assumed to exist, with the ports that backends name.
//!
//! The translation does not check the rest of a rule without a usable backend. It reports the missing Services, so the check adds
//! them and translates again.

use std::collections::BTreeMap;

use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey, Objects, Service, ServicePort};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::{Cause, Problem};
use lockgate_route::translate::{ChangedInputs, Input, Translator};

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
            let Some((id, key, port)) = missing_service(problem) else { continue };
            if !manifests.has_unread(Kind::SERVICE, key) {
                assumed.references.push((id, problem.field.clone(), Kind::SERVICE.id(key.clone())));
            }
            let ports = missing.entry(key.clone()).or_default();
            if !ports.contains(port) {
                ports.push(port.clone());
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
            let service = Service {
                meta,
                external_name,
                ports,
                ipv6_families,
                prefers_close: false,
                is_of_fleet: false,
                gateway,
            };
            objects.apply(Object::new(service));
        }
        translator.update(objects, settings, &changed);
    }
}

/// Returns the object, the missing Service, and its port, if the problem is a missing Service.
fn missing_service(problem: &Problem) -> Option<(ObjectId, &ObjectKey, &ServicePort)> {
    match problem.message.cause()? {
        Cause::MissingService(service, port) => Some((id_of(&problem.object)?, service, port)),
        _ => None,
    }
}
