//! The references of HTTPPolicies to other objects.

use std::sync::Arc;

use crate::model::UpstreamProtocol;
use crate::objects::gateway::PolicyBackend;
use crate::objects::{Kind, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::backend::{Called, called};
use crate::translate::grants::Reference;

/// Returns the cluster of a Service that a policy names.
pub fn backend(
    reference: &PolicyBackend,
    over: Option<UpstreamProtocol>,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<Called, FieldFault> {
    let PolicyBackend { name, namespace: of, port } = reference;
    let key = ObjectKey::new(of.as_deref().unwrap_or(namespace), name);
    permit(Kind::SERVICE, &key, namespace, resolver)
        .map_err(|message| FieldFault::new(".backendRef.namespace", message))?;
    called(key, *port, over, resolver).map_err(|message| FieldFault::new(".backendRef", message.to_string()))
}

/// Checks whether a policy of this namespace may refer to an object.
pub fn permit(kind: Kind, key: &ObjectKey, namespace: &Arc<str>, resolver: &mut Resolver) -> Result<(), String> {
    let grant = Reference { from: Kind::HTTP_POLICY, namespace, group: "", kind: kind.as_str(), to: key };
    match resolver.permits(&grant) {
        true => Ok(()),
        false => Err(format!("no ReferenceGrant permits the reference to {} \"{key}\"", kind.as_str())),
    }
}
