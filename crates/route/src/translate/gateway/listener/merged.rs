//! The merged listeners of a Gateway and its ListenerSets, for routes and Envoy listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::parsed::{ListenerProtocol, ParsedListener};
use super::sets::AddedSet;
use crate::model::{Host, ListenerId};
use crate::objects::gateway::EnvoyFleetSpec;
use crate::objects::{ObjectKey, Precedence, Revision, Transport};
use crate::translate::gateway::client_certificates::ClientCertificate;
use crate::translate::gateway::hostname::covers;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::Dependencies;
use crate::translate::verdict::{Status, Verdict};

/// A Gateway, parsed.
#[derive(Debug, PartialEq)]
pub struct ParsedGateway {
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Its rank among objects.
    pub precedence: Precedence,
    /// The first port of its home ([`home`](crate::translate::gateway::home)).
    pub home: u16,
    /// The listeners of the Gateway in the order of the spec, followed by the listeners of its ListenerSets.
    pub listeners: Box<[ParsedListener]>,
    /// The ListenerSets that name it, accepted or not, in the order of precedence.
    pub sets: Box<[AddedSet]>,
    /// The key pair that it presents to backends.
    pub certificate: ClientCertificate,
    /// The Envoys that serve only this Gateway. `None`: the shared Envoys serve it.
    pub fleet: Option<Arc<EnvoyFleetSpec>>,
    /// Whether its Service still selects the shared Envoys until the fleet is ready.
    pub is_moving: bool,
    /// Whether the shared Envoys still serve its open connections, after its Service has moved to the fleet.
    pub is_draining: bool,
    /// The ports that its Service must have: the ports of the Gateway itself, then the ports of its ListenerSets.
    pub ports: Vec<(Transport, u16)>,
    /// The problems with policies of other products, of the Gateway and its ListenerSets.
    pub problems_of_policies: Box<[Arc<Problem>]>,
    /// The inputs that it depends on.
    pub dependencies: Dependencies,
    /// The conditions of its status, except for the numbers of attached routes.
    pub verdicts: Box<[Verdict]>,
}

/// The listeners to which the routes of one parent can attach, each with the more specific host names on its port.
pub type Seen<'a> = Vec<(&'a ParsedListener, BTreeSet<&'a Host>)>;

impl ParsedGateway {
    /// Returns its key.
    pub fn key(&self) -> &ObjectKey {
        &self.precedence.key
    }

    /// Returns the problems of the Gateway, its listeners, and its ListenerSets. Every negative condition is a problem.
    pub fn problems(&self) -> Box<[Arc<Problem>]> {
        let own = [(None, &self.origin, &self.verdicts)];
        let of_sets = self.sets.iter().map(|set| (Some(set.key()), &set.origin, &set.verdicts));
        let all = own.into_iter().chain(of_sets);
        let faults = all.flat_map(|(set, origin, verdicts)| {
            let is_fault = |verdict: &&Verdict| verdict.status == Status::False && verdict.condition != "Conflicted";
            verdicts.iter().filter(is_fault).map(move |verdict| (set, origin, verdict))
        });
        let by_name: BTreeMap<_, _> = self.listeners.iter().map(|one| ((one.set.as_ref(), &*one.name), one)).collect();
        let problem = |(set, origin, verdict): (Option<&ObjectKey>, &ObjectRef, &Verdict)| {
            let name = verdict.listener.as_ref();
            let listener = name.and_then(|name| by_name.get(&(set, &**name)));
            let field = name.map(|name| format!("spec.listeners[{name:?}]")).unwrap_or_default();
            let (object, message) =
                (origin.clone(), verdict.message.with_text(format!("{}: {}", verdict.reason, verdict.message)));
            let lacks_pairs =
                listener.and_then(|listener| listener.protocol.as_ref()).is_some_and(ListenerProtocol::lacks_pairs);
            let consequence = match verdict.condition {
                "Accepted" => "not served",
                _ if name.is_none() => "requests to backends with TLS are answered 500",
                _ if lacks_pairs || listener.is_some_and(|listener| !listener.is_accepted()) => "not served",
                _ => "served without this reference",
            };
            let reason = Reason::ListenerNotValid;
            Arc::new(Problem { object, field, reason, message, consequence: consequence.to_owned() })
        };
        faults.map(problem).chain(self.problems_of_policies.iter().cloned()).collect()
    }

    /// Returns the ListenerSet with this key.
    pub fn set(&self, key: &ObjectKey) -> Option<&AddedSet> {
        self.sets.iter().find(|set| set.key() == key)
    }

    /// Returns the ports on which Envoys listen for it.
    pub fn binds(&self) -> BTreeSet<(Transport, u16)> {
        let bind = |listener: &ParsedListener| Some((listener.place()?.0, listener.bound.as_ref()?.1));
        self.listeners.iter().filter_map(bind).collect()
    }

    /// Removes its listeners from a port that belongs to another Gateway. This changes the revision, so that Envoys must accept the
    /// listeners when the Gateway regains the port.
    pub fn release(&mut self, bind: (Transport, u16)) {
        for listener in &mut self.listeners {
            let at = listener.place().map(|place| place.0).zip(listener.bound.as_ref().map(|(_, port)| *port));
            if at != Some(bind) {
                continue;
            }
            listener.bound = None;
            let refused = Verdict::new(listener.origin.clone(), "Accepted", Status::False, "PortUnavailable");
            let message = format!("another Gateway has port {} of the Envoys", bind.1);
            let refused = Verdict { listener: Some(listener.name.clone()), message: message.into(), ..refused };
            let mut sets = self.sets.iter_mut();
            let of = match &listener.set {
                None => Some((&mut self.verdicts, &mut self.revision)),
                Some(key) => sets.find(|set| set.key() == key).map(|set| (&mut set.verdicts, &mut set.revision)),
            };
            if let Some((verdicts, revision)) = of {
                *verdicts = verdicts.iter().cloned().chain([refused]).collect();
                revision.0 = revision.0.wrapping_add(1 + u64::from(bind.1));
            }
        }
    }

    /// Returns the listeners on the same Envoy listener.
    pub fn on<'a>(&'a self, id: &'a ListenerId) -> impl Iterator<Item = &'a ParsedListener> {
        self.listeners.iter().filter(move |listener| listener.bound.as_ref().is_some_and(|(other, _)| other == id))
    }

    /// Returns whether `listener` owns `host`: it has the most specific pattern of all listeners on its port that cover
    /// the host. Source: Gateway API v1, `Listener.hostname`, and the feature `GatewayHTTPListenerIsolation`.
    pub fn owns(&self, listener: &ParsedListener, host: &Host) -> bool {
        match &listener.bound {
            Some((id, _)) => is_owner(listener, host, self.on(id)),
            None => true,
        }
    }

    /// Returns the listener that owns `host` on an Envoy listener. The patterns that cover a host are ordered.
    pub fn owner_of<'a>(&'a self, id: &'a ListenerId, host: &Host) -> Option<&'a ParsedListener> {
        let covering = self.on(id).filter(|listener| covers(&listener.host, host));
        covering.reduce(|closest, listener| if is_closer(listener, closest) { listener } else { closest })
    }

    /// Returns the listeners by Envoy listener. With thousands of questions, this costs less than [`ParsedGateway::on`].
    pub fn by_envoy_listener(&self) -> BTreeMap<&ListenerId, Vec<&ParsedListener>> {
        let mut listeners = BTreeMap::<_, Vec<_>>::new();
        for listener in &self.listeners {
            if let Some((id, _)) = &listener.bound {
                listeners.entry(id).or_default().push(listener);
            }
        }
        listeners
    }

    /// Returns the listeners by parent of routes: the Gateway itself (`None`), and each accepted ListenerSet.
    pub fn seen(&self) -> BTreeMap<Option<&ObjectKey>, Seen<'_>> {
        let mut seen = BTreeMap::<Option<&ObjectKey>, Seen<'_>>::new();
        seen.insert(None, Vec::new());
        for listener in &self.listeners {
            // No pattern is more specific than an exact name.
            let id = listener.bound.as_ref().filter(|_| !matches!(listener.host, Host::Exact(_))).map(|(id, _)| id);
            let others = id.into_iter().flat_map(|id| self.on(id)).filter(|other| is_closer(other, listener));
            let closer = others.map(|other| &other.host).collect();
            seen.entry(listener.set.as_ref()).or_default().push((listener, closer));
        }
        seen
    }
}

/// Returns whether `listener` owns `host` among the listeners on the same Envoy listener.
pub fn is_owner<'a>(listener: &ParsedListener, host: &Host, mut on: impl Iterator<Item = &'a ParsedListener>) -> bool {
    !on.any(|other| is_closer(other, listener) && covers(&other.host, host))
}

/// Returns whether `other` has a more specific host name than `listener`.
fn is_closer(other: &ParsedListener, listener: &ParsedListener) -> bool {
    other.host != listener.host && covers(&listener.host, &other.host)
}
