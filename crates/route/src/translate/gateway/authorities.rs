//! References to certificate authorities, which ConfigMaps contain.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Authorities, SecretId, SecretSource};
use crate::objects::gateway::ObjectReference;
use crate::objects::{ConfigMap, Kind, ObjectKey, Objects};
use crate::translate::dialect::Resolver;
use crate::translate::grants::Reference;
use crate::translate::graph::Input;
use crate::translate::problem::Message;
use crate::translate::verdict::ConditionFault;

/// An object that refers to certificate authorities.
#[derive(Debug, Clone, Copy)]
pub struct Referrer<'a> {
    /// Its kind, of Gateway API.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: &'a Arc<str>,
    /// The field with the references.
    pub field: &'a str,
    /// Whether a ReferenceGrant can permit references to other namespaces.
    pub grants: bool,
    /// The reason of the condition `ResolvedRefs` for a reference to a kind other than ConfigMap.
    pub invalid_kind: &'static str,
}

/// The authorities of a list of references.
#[derive(Debug)]
pub struct Resolved {
    /// The authorities of all valid references. `None`: there is no valid reference.
    pub authorities: Option<SecretId>,
    /// The fault of the first invalid reference, with the reason of the condition `ResolvedRefs`.
    pub fault: Option<ConditionFault>,
}

/// Resolves references to certificate authorities. Source: Gateway API v1, `BackendTLSPolicyValidation` and
/// `FrontendTLSValidation`.
pub fn resolve(references: &[ObjectReference], referrer: Referrer, resolver: &mut Resolver) -> Resolved {
    let (mut valid, mut fault) = (BTreeSet::new(), None);
    for (index, reference) in references.iter().enumerate() {
        match config_map(reference, referrer, resolver) {
            Ok(key) => drop(valid.insert(key)),
            Err(ConditionFault { reason, message }) => {
                let text = || format!("{}[{index}]: {message}", referrer.field);
                fault.get_or_insert_with(|| ConditionFault::new(reason, message.with_text(text())));
            }
        }
    }
    Resolved { authorities: SecretId::of_config_maps(valid), fault }
}

/// Returns the ConfigMap of a reference, if it has valid authorities.
fn config_map(
    reference: &ObjectReference,
    referrer: Referrer,
    resolver: &mut Resolver,
) -> Result<ObjectKey, ConditionFault> {
    let ObjectReference { group, kind, namespace, name } = reference;
    let Referrer { kind: from, namespace: own, grants, invalid_kind, .. } = referrer;
    if (group.as_str(), kind.as_str()) != ("", "ConfigMap") {
        let message = format!("certificate authorities of kind {kind:?} of group {group:?} are not supported");
        return Err(ConditionFault::new(invalid_kind, message));
    }
    let invalid = |message: Message| Err(ConditionFault::new("InvalidCACertificateRef", message));
    let key = ObjectKey::new(namespace.as_deref().unwrap_or(own), name);
    if !grants && key.namespace != *own {
        return invalid(format!("ConfigMap \"{key}\" is in another namespace").into());
    }
    let grant = Reference { from, namespace: own, group: "", kind: "ConfigMap", to: &key };
    if !resolver.permits(&grant) {
        return Err(ConditionFault::new("RefNotPermitted", Message::not_permitted(Kind::CONFIG_MAP, &key)));
    }
    resolver.record(Input::new(Kind::CONFIG_MAP, key.clone()));
    match resolver.context.objects.get::<ConfigMap>(&key).map(|config_map| &config_map.authorities) {
        None => invalid(Message::missing(Kind::CONFIG_MAP, &key, "does not exist, or has no key \"ca.crt\"")),
        Some(Err(fault)) => invalid(format!("ConfigMap \"{key}\": {fault}").into()),
        Some(Ok(_)) => Ok(key),
    }
}

/// Returns the size of certificate authorities, in bytes. The result is a multiple of 4 KiB, because renewed authorities have a
/// slightly different size.
pub fn size(authorities: &Authorities, objects: &Objects) -> u64 {
    /// The authorities of the system.
    const SYSTEM: usize = 220_000;
    const UNIT: u64 = 4 << 10;
    let length = |key: &ObjectKey| {
        let config_map = objects.get::<ConfigMap>(key);
        config_map.and_then(|config_map| Some(config_map.authorities.as_ref().ok()?.len())).unwrap_or_default()
    };
    let text: usize = match authorities {
        Authorities::System => SYSTEM,
        Authorities::Secret(secret) => match secret.source() {
            SecretSource::ConfigMaps(first, others) => [first].into_iter().chain(others).map(length).sum(),
            // The policy of a BackendTLSPolicy names ConfigMaps only.
            SecretSource::Secret(..) | SecretSource::Revoking { .. } => 0,
        },
    };
    (text as u64).next_multiple_of(UNIT)
}
