//! The attachment of routes to listeners.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::hostname::intersect;
use super::listener::{ListenerProtocol, ParsedGateway, ParsedListener, is_owner};
use crate::model::{Host, ListenerId};
use crate::objects::gateway::{GROUP, ParentRef, RouteKind};
use crate::objects::{Kind, Meta, ObjectId, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::problem::Message;
use crate::translate::verdict::ConditionFault;

/// The attachment of a route to one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The index in `spec.parentRefs` of the reference.
    pub parent: u16,
    /// The listener.
    pub listener: ListenerName,
    /// The Envoy listener, if there is one.
    pub bound: Option<ListenerId>,
    /// The host names of the route that the listener serves. Host names that a more specific listener of the same port
    /// serves are left out.
    pub hosts: Vec<Host>,
    /// The size of the key pairs that Envoy has for each host if the listener decrypts connections, in bytes.
    pub pair_size: u64,
}

/// The identity of a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerName {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The ListenerSet that declares the listener. `None`: the Gateway itself.
    pub set: Option<ObjectKey>,
    /// The name of the listener.
    pub name: Arc<str>,
}

/// The tenants that own a listener. Each of them can add listeners, which have copies of routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerOwner {
    /// The namespace of the Gateway.
    pub gateway: Arc<str>,
    /// The namespace of the ListenerSet. `None`: the Gateway itself has the listener.
    pub set: Option<Arc<str>>,
}

impl ListenerName {
    /// Returns the owner of the listener.
    pub fn owner(&self) -> ListenerOwner {
        ListenerOwner::new(&self.gateway, self.set.as_ref())
    }

    /// Returns whether `owner` is the owner of the listener.
    pub fn is_of(&self, owner: &ListenerOwner) -> bool {
        self.gateway.namespace == owner.gateway && self.set.as_ref().map(|set| &set.namespace) == owner.set.as_ref()
    }
}

impl ListenerOwner {
    fn new(gateway: &ObjectKey, set: Option<&ObjectKey>) -> Self {
        Self { gateway: gateway.namespace.clone(), set: set.map(|set| set.namespace.clone()) }
    }
}

impl fmt::Display for ListenerOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(set) = &self.set {
            write!(f, "ListenerSets in namespace \"{set}\" for ")?;
        }
        write!(f, "Gateways in namespace \"{}\"", self.gateway)
    }
}

/// A parent of a route: a Gateway, or a ListenerSet of a Gateway.
#[derive(Debug, Clone, Copy)]
pub struct Parent<'g> {
    /// The Gateway.
    pub gateway: &'g ParsedGateway,
    /// The ListenerSet. `None`: the parent is the Gateway itself, without the listeners of ListenerSets.
    pub set: Option<&'g ObjectKey>,
}

impl Parent<'_> {
    /// Returns the owner of the listeners.
    pub fn owner(&self) -> ListenerOwner {
        ListenerOwner::new(self.gateway.key(), self.set)
    }

    /// Returns the kind of the object that routes name.
    pub fn kind(&self) -> Kind {
        if self.set.is_some() { Kind::LISTENER_SET } else { Kind::GATEWAY }
    }
}

/// The attachments of a route to a parent.
#[derive(Debug, Default)]
pub struct Attachments {
    /// The attachments.
    pub to: Vec<Attachment>,
    /// The hosts that the namespace of the route must not define, each with the reason. If there is no attachment, these are the cause.
    pub refused: BTreeMap<Host, Message>,
}

/// The properties of a route on which its attachment depends.
#[derive(Debug, Clone, Copy)]
pub struct Attaching<'a> {
    /// The index in `spec.parentRefs` of the reference.
    pub parent: u16,
    /// The kind.
    pub kind: Kind,
    /// The metadata.
    pub meta: &'a Meta,
    /// The host names. `None`: the kind has no host names, or the route names none.
    pub hosts: Option<&'a [Host]>,
}

/// Returns the Gateway or the ListenerSet that a route in `namespace` references. Returns `None` for parents of other
/// kinds.
pub fn parent_id(reference: &ParentRef, namespace: &Arc<str>) -> Option<ObjectId> {
    if reference.group.as_deref().unwrap_or(GROUP) != GROUP {
        return None;
    }
    let name = reference.kind.as_deref().unwrap_or(Kind::GATEWAY.as_str());
    let kind = [Kind::GATEWAY, Kind::LISTENER_SET].into_iter().find(|kind| kind.as_str() == name)?;
    let namespace = reference.namespace.as_deref().map_or_else(|| namespace.clone(), Arc::from);
    Some(kind.id(ObjectKey { namespace, name: reference.name.as_str().into() }))
}

/// Attaches a route to the listeners of `parent` that `reference` names. Source: Gateway API v1, `ParentReference`,
/// `AllowedRoutes`, and `RouteConditionReason`. The error is the fault of the condition `Accepted`.
pub fn attach(
    route: Attaching,
    reference: &ParentRef,
    parent: Parent,
    resolver: &mut Resolver,
) -> Result<Attachments, ConditionFault> {
    let Parent { gateway, set } = parent;
    if set.is_some_and(|set| gateway.set(set).is_none_or(|set| !set.attached)) {
        return Err(ConditionFault::new("NoMatchingParent", "the Gateway does not accept the ListenerSet"));
    }
    let is_named = |listener: &&ParsedListener| {
        listener.set.as_ref() == set
            && reference.section_name.as_deref().is_none_or(|name| *name == *listener.name)
            && reference.port.is_none_or(|port| port == listener.port)
    };
    let named: Vec<&ParsedListener> = gateway.listeners.iter().filter(is_named).collect();
    if named.is_empty() {
        let message = format!("the {} has no listener of this name and port", parent.kind().as_str());
        return Err(ConditionFault::new("NoMatchingParent", message));
    }
    let is_kind =
        |kind: &RouteKind| kind.group.as_deref().unwrap_or(GROUP) == GROUP && kind.kind == route.kind.as_str();
    let (namespace, own) = (&route.meta.key.namespace, &set.unwrap_or(gateway.key()).namespace);
    let allowed = named.into_iter().filter(|listener| listener.kinds.iter().any(is_kind));
    let allowed: Vec<&ParsedListener> =
        allowed.filter(|listener| listener.namespaces.allow(namespace, own, resolver)).collect();
    if allowed.is_empty() {
        let message = "no listener allows routes of this kind and namespace";
        return Err(ConditionFault::new("NotAllowedByListeners", message));
    }
    let on = gateway.by_envoy_listener();
    let owns = |listener: &ParsedListener, host: &Host| {
        let others = listener.bound.as_ref().and_then(|(id, _)| on.get(id));
        is_owner(listener, host, others.into_iter().flatten().copied())
    };
    let mut refused = BTreeMap::new();
    let mut attached = |listener: &ParsedListener| {
        let hosts: Vec<Host> = match route.hosts {
            None => vec![listener.host.clone()],
            Some(hosts) => hosts.iter().filter_map(|host| intersect(&listener.host, host)).collect(),
        };
        let matches = !hosts.is_empty();
        let mut hosts: Vec<Host> = hosts.into_iter().filter(|host| owns(listener, host)).collect();
        hosts.sort();
        hosts.dedup();
        let has_names = !matches!(listener.protocol, Some(ListenerProtocol::Tcp | ListenerProtocol::Udp));
        let owned = hosts.len();
        hosts.retain(|host| {
            let fault = resolver.check_host(host, namespace).err().filter(|_| has_names);
            let is_permitted = fault.is_none();
            refused.extend(fault.map(|fault| (host.clone(), fault)));
            is_permitted
        });
        let matches = matches && (owned == 0 || !hosts.is_empty());
        matches.then(|| Attachment {
            parent: route.parent,
            listener: ListenerName { gateway: gateway.key().clone(), set: set.cloned(), name: listener.name.clone() },
            bound: listener.bound.as_ref().map(|(id, _)| id.clone()),
            hosts,
            pair_size: listener.pair_size,
        })
    };
    let to: Vec<Attachment> = allowed.into_iter().filter_map(&mut attached).collect();
    match to.is_empty() && refused.is_empty() {
        true => {
            let message = "no listener accepts a host name of the route";
            Err(ConditionFault::new("NoMatchingListenerHostname", message))
        }
        false => Ok(Attachments { to, refused }),
    }
}
