//! The kinds of Contour.

use std::sync::Arc;

use lockgate_route::objects::http_proxy::{
    ExtensionService, ExtensionServiceSpec, ExtensionServiceStatus, HttpProxy, HttpProxySpec, HttpProxyStatus,
    TlsCertificateDelegation, TlsCertificateDelegationSpec,
};
use lockgate_route::objects::{Kind, Meta, Object};
use serde::de::IgnoredAny;

use super::Spec;

impl Spec for HttpProxySpec {
    type Status = HttpProxyStatus;

    const KIND: Kind = Kind::HTTP_PROXY;

    fn object(mut self, meta: Meta, version: Arc<str>, mut status: HttpProxyStatus) -> Object {
        self.includes.shrink_to_fit();
        self.routes.iter_mut().for_each(|route| {
            route.conditions.shrink_to_fit();
            route.services.shrink_to_fit();
        });
        self.routes.shrink_to_fit();
        self.tcpproxy.iter_mut().for_each(|to| to.services.shrink_to_fit());
        status.conditions.shrink_to_fit();
        Object::new(HttpProxy { meta, spec: self, status, version })
    }
}

impl Spec for TlsCertificateDelegationSpec {
    type Status = IgnoredAny;

    const KIND: Kind = Kind::TLS_CERTIFICATE_DELEGATION;

    fn object(mut self, meta: Meta, _: Arc<str>, _: IgnoredAny) -> Object {
        self.delegations.shrink_to_fit();
        Object::new(TlsCertificateDelegation { meta, spec: self })
    }
}

impl Spec for ExtensionServiceSpec {
    type Status = ExtensionServiceStatus;

    const KIND: Kind = Kind::EXTENSION_SERVICE;

    fn object(mut self, meta: Meta, version: Arc<str>, mut status: ExtensionServiceStatus) -> Object {
        self.services.shrink_to_fit();
        status.conditions.shrink_to_fit();
        Object::new(ExtensionService { meta, spec: self, status, version })
    }
}
