//! HTTPProxies, ExtensionServices, and TLSCertificateDelegations from their JSON form.

use serde_json::{Value, json};

use super::objects::meta;
use crate::objects::http_proxy::{
    ExtensionService, ExtensionServiceStatus, HttpProxy, HttpProxyStatus, TlsCertificateDelegation,
};
use crate::objects::{Meta, Object};

/// Returns an HTTPProxy with this spec.
pub fn http_proxy(name: &str, spec: &Value) -> Object {
    http_proxy_created(name, 0, spec)
}

/// Returns an HTTPProxy of this age with this spec.
pub fn http_proxy_created(name: &str, created: i64, spec: &Value) -> Object {
    let spec = serde_json::from_value(spec.clone()).unwrap();
    let meta = Meta { created, ..meta(name) };
    Object::new(HttpProxy { meta, spec, status: HttpProxyStatus::default(), version: "".into() })
}

/// Returns an ExtensionService with this spec.
pub fn extension_service(name: &str, spec: &Value) -> Object {
    let (spec, status) = (serde_json::from_value(spec.clone()).unwrap(), ExtensionServiceStatus::default());
    Object::new(ExtensionService { meta: meta(name), spec, status, version: "".into() })
}

/// Returns a TLSCertificateDelegation of a Secret to namespaces.
pub fn delegation(name: &str, secret: &str, namespaces: &[&str]) -> Object {
    let spec = json!({ "delegations": [{ "secretName": secret, "targetNamespaces": namespaces }] });
    Object::new(TlsCertificateDelegation { meta: meta(name), spec: serde_json::from_value(spec).unwrap() })
}
