//! Builders of ListenerSets.

use super::named;
use crate::objects::gateway::{
    AllowedListeners, AllowedNamespaces, GatewayListener, LabelSelector, ListenerSet, ListenerSetSpec, ParentRef,
    SecretRef,
};
use crate::objects::{Kind, Object};
use crate::testing::objects::{meta, with_meta};

/// A ListenerSet.
#[derive(Clone)]
pub struct ListenerSetBuilder(ListenerSet);
with_meta!(ListenerSetBuilder);

/// Starts the ListenerSet `shop/name`, or `name` if it has a namespace, of a Gateway.
pub fn listener_set(name: &str, gateway: &str) -> ListenerSetBuilder {
    let (namespace, parent) = named(gateway);
    let parent_ref = ParentRef { namespace, name: parent, ..ParentRef::default() };
    let spec = ListenerSetSpec { parent_ref, listeners: Vec::new() };
    ListenerSetBuilder(ListenerSet { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

impl ListenerSetBuilder {
    /// Adds a listener, to which the following calls apply.
    pub fn listener(mut self, name: &str, port: u16, protocol: &str) -> Self {
        let protocol = protocol.to_owned();
        let listener = GatewayListener { name: name.into(), port, protocol, ..GatewayListener::default() };
        self.0.spec.listeners.push(listener);
        self
    }

    pub fn hostname(self, hostname: &str) -> Self {
        self.change(|listener| listener.hostname = Some(hostname.to_owned()))
    }

    /// Adds the certificate of the Secret `name` or `namespace/name`.
    pub fn certificate(self, secret: &str) -> Self {
        let (namespace, name) = named(secret);
        let secret = SecretRef { namespace, name, ..SecretRef::default() };
        self.change(|listener| listener.tls.get_or_insert_default().certificate_refs.push(secret))
    }

    /// Sets the TLS mode.
    pub fn tls_mode(self, mode: &str) -> Self {
        self.change(|listener| listener.tls.get_or_insert_default().mode = Some(mode.to_owned()))
    }

    /// Allows routes of the namespaces `All`, `Same`, or `None`.
    pub fn routes_from(self, from: &str) -> Self {
        let from = AllowedNamespaces { from: Some(from.to_owned()), selector: None };
        self.change(|listener| listener.allowed_routes.get_or_insert_default().namespaces = Some(from))
    }

    /// Applies any other change to the spec.
    pub fn spec(mut self, change: impl FnOnce(&mut ListenerSetSpec)) -> Self {
        change(&mut self.0.spec);
        self
    }

    /// Applies any other change to the last listener.
    pub fn change(mut self, change: impl FnOnce(&mut GatewayListener)) -> Self {
        change(self.0.spec.listeners.last_mut().expect("a listener"));
        self
    }
}

/// Returns ListenerSets that are allowed from `All`, `Same`, or `None`, or from namespaces with the label `team: front`
/// (`Selector`).
pub fn allowed_listeners(from: &str) -> Option<AllowedListeners> {
    let match_labels = [("team".to_owned(), "front".to_owned())].into();
    let selector = (from == "Selector").then(|| LabelSelector { match_labels, ..LabelSelector::default() });
    let namespaces = AllowedNamespaces { from: Some(from.to_owned()), selector };
    Some(AllowedListeners { namespaces: Some(namespaces) })
}

/// Returns a reference of a route to the ListenerSet `name` or `namespace/name`.
pub fn parent_set(set: &str) -> ParentRef {
    let (namespace, name) = named(set);
    ParentRef { kind: Some(Kind::LISTENER_SET.as_str().to_owned()), namespace, name, ..ParentRef::default() }
}
