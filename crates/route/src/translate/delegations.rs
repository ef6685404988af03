//! TLSCertificateDelegations: the references to Secrets of other namespaces that their namespaces permit.

use super::dialect::Resolver;
use super::graph::Input;
use crate::objects::http_proxy::TlsCertificateDelegation;
use crate::objects::{Kind, ObjectKey};

/// Returns whether a Secret is in `namespace`, or a TLSCertificateDelegation of its namespace permits the reference.
pub fn permit(secret: &ObjectKey, namespace: &str, resolver: &mut Resolver) -> bool {
    if *secret.namespace == *namespace {
        return true;
    }
    let all = ObjectKey { namespace: "".into(), name: secret.namespace.clone() };
    resolver.record(Input::new(Kind::TLS_CERTIFICATE_DELEGATION, all));
    let first = ObjectKey { namespace: secret.namespace.clone(), name: "".into() };
    let delegations = resolver.context.objects.of_kind(Kind::TLS_CERTIFICATE_DELEGATION).range(first..);
    let delegations = delegations.take_while(|(key, _)| key.namespace == secret.namespace);
    let mut delegations = delegations.filter_map(|(_, object)| object.get::<TlsCertificateDelegation>());
    delegations.any(|one| one.spec.delegations.iter().any(|one| one.permits(&secret.name, namespace)))
}
