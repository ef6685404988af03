//! Builders of BackendTLSPolicies, of ConfigMaps with certificate authorities, and of the TLS configuration of Gateways.

use super::{GatewayBuilder, named};
use crate::objects::gateway::{
    BackendTlsPolicy, BackendTlsPolicySpec, FrontendValidation, GatewayTls, ObjectReference, PolicyTarget, PortTls,
    SecretRef, SubjectAltName,
};
use crate::objects::{ConfigMap, Object};
use crate::testing::objects::{meta, with_meta};

/// A BackendTLSPolicy.
#[derive(Clone)]
pub struct BackendTlsPolicyBuilder(BackendTlsPolicy);
with_meta!(BackendTlsPolicyBuilder);

/// Starts the BackendTLSPolicy `shop/name`, or `name` if it has a namespace. It targets nothing, and expects
/// `backend.test`.
pub fn backend_tls_policy(name: &str) -> BackendTlsPolicyBuilder {
    let mut spec = BackendTlsPolicySpec::default();
    spec.validation.hostname = "backend.test".to_owned();
    BackendTlsPolicyBuilder(BackendTlsPolicy { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

impl BackendTlsPolicyBuilder {
    /// Adds a Service as a target, or its port of this name.
    pub fn target(mut self, service: &str, port: Option<&str>) -> Self {
        let (kind, name, section_name) = ("Service".to_owned(), service.to_owned(), port.map(Into::into));
        self.0.spec.target_refs.push(PolicyTarget { group: String::new(), kind, name, section_name });
        self
    }

    /// Adds the certificate authorities of a ConfigMap.
    pub fn config_map(mut self, name: &str) -> Self {
        self.0.spec.validation.ca_certificate_refs.push(to_config_map(name));
        self
    }

    /// Uses well-known certificate authorities.
    pub fn well_known(mut self, name: &str) -> Self {
        self.0.spec.validation.well_known_ca_certificates = Some(name.to_owned());
        self
    }

    pub fn hostname(mut self, hostname: &str) -> Self {
        self.0.spec.validation.hostname = hostname.to_owned();
        self
    }

    /// Adds a host name that the certificate may have.
    pub fn alternative(mut self, hostname: &str) -> Self {
        let (r#type, hostname) = ("Hostname".to_owned(), hostname.to_owned());
        self.0.spec.validation.subject_alt_names.push(SubjectAltName { r#type, hostname, uri: String::new() });
        self
    }
}

impl GatewayBuilder {
    /// Validates clients by the certificate authorities of a ConfigMap: the clients of one port, or of all other ports.
    pub fn validation(self, port: Option<u16>, config_map: &str, mode: Option<&str>) -> Self {
        let (ca_certificate_refs, mode) = (vec![to_config_map(config_map)], mode.map(str::to_owned));
        let validation = Some(FrontendValidation { ca_certificate_refs, mode });
        self.tls(|tls| {
            let frontend = tls.frontend.get_or_insert_default();
            match port {
                None => frontend.default.validation = validation,
                Some(port) => {
                    let mut of_port = PortTls { port, ..PortTls::default() };
                    of_port.tls.validation = validation;
                    frontend.per_port.push(of_port);
                }
            }
        })
    }

    /// Presents the key pair of a Secret to backends.
    pub fn client_certificate(self, secret: &str) -> Self {
        let (namespace, name) = named(secret);
        let secret = SecretRef { namespace, name, ..SecretRef::default() };
        self.tls(|tls| tls.backend.get_or_insert_default().client_certificate_ref = Some(secret))
    }

    fn tls(self, change: impl FnOnce(&mut GatewayTls)) -> Self {
        self.spec(|spec| change(spec.tls.get_or_insert_default()))
    }
}

fn to_config_map(name: &str) -> ObjectReference {
    let (namespace, name) = named(name);
    ObjectReference { group: String::new(), kind: "ConfigMap".to_owned(), namespace, name }
}

/// Returns the ConfigMap `shop/name`, or `name` if it has a namespace, with these certificate authorities or their fault.
pub fn config_map(name: &str, authorities: Result<&str, &str>) -> Object {
    let authorities = authorities.map(Into::into).map_err(Into::into);
    Object::new(ConfigMap { meta: meta(name), authorities })
}
