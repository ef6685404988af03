//! The ListenerSets of a Gateway: their permission to add listeners, and their conditions.

use lockgate_xds::provenance::ObjectRef;

use super::conflicts::AcceptedListeners;
use super::declared::{Declared, Parser};
use super::parsed::{Namespaces, ParsedListener};
use crate::objects::gateway::{self, ListenerSet};
use crate::objects::{Kind, ObjectKey, Precedence, Revision};
use crate::settings::Settings;
use crate::translate::dialect::Resolver;
use crate::translate::gateway::foreign_policies::{Effects, ForeignPolicies};
use crate::translate::graph::Input;
use crate::translate::verdict::{Status, Verdict};

/// A ListenerSet that names a Gateway, parsed.
#[derive(Debug, PartialEq)]
pub struct AddedSet {
    /// Its rank among ListenerSets.
    pub precedence: Precedence,
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Whether it is accepted.
    pub accepted: bool,
    /// Whether the Gateway allows its listeners, valid or not.
    pub attached: bool,
    /// The conditions of its status, except for the numbers of attached routes.
    pub verdicts: Box<[Verdict]>,
}

/// A ListenerSet during the parsing of its Gateway.
pub struct ListenerSetDraft<'p> {
    precedence: Precedence,
    set: &'p ListenerSet,
    /// Whether the Gateway allows its listeners.
    attached: bool,
    /// Its listeners and conditions.
    pub declared: Declared,
}

impl ListenerSetDraft<'_> {
    /// Returns the effects of policies of other products on the listeners. Policies of a refused ListenerSet have none.
    pub fn effects(&self, policies: &ForeignPolicies, settings: &Settings) -> Effects {
        match self.attached {
            true => policies.effects(Kind::LISTENER_SET, &self.set.meta, settings),
            false => Effects::default(),
        }
    }
}

impl AddedSet {
    /// Returns its key.
    pub fn key(&self) -> &ObjectKey {
        &self.precedence.key
    }
}

/// Returns the namespaces whose ListenerSets may add listeners.
pub fn allowed(gateway: &gateway::Gateway) -> Namespaces {
    let allowed = gateway.spec.allowed_listeners.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
    allowed.map_or(Namespaces::None, |allowed| Namespaces::new(allowed, Namespaces::None))
}

/// Parses the ListenerSets that name a Gateway, in the order of precedence. `own` are the listeners of the Gateway itself.
///
/// Source: Gateway API v1, `ListenerSetSpec.listeners` and `AllowedListeners`.
pub fn parse<'p, 'r>(
    gateway: &'p gateway::Gateway,
    sets: &[&'p ListenerSet],
    own: &Declared,
    accepted: &mut AcceptedListeners,
    mut resolver: Resolver<'r>,
) -> (Vec<ListenerSetDraft<'p>>, Resolver<'r>) {
    let allowed = allowed(gateway);
    let mut ranked: Vec<(Precedence, &'p ListenerSet)> = Vec::new();
    for set in sets {
        let namespace = ObjectKey { namespace: "".into(), name: set.meta.key.namespace.clone() };
        resolver.record(Input::new(Kind::NAMESPACE, namespace));
        ranked.push((resolver.context.objects.precedence(Kind::LISTENER_SET, &set.meta), *set));
    }
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut parsed = Vec::new();
    for (precedence, set) in ranked {
        let key = &set.meta.key;
        let mut declared = Declared::new(set.meta.object_ref(Kind::LISTENER_SET), Some(key.clone()));
        let refused = match allowed.allow(&key.namespace, &gateway.meta.key.namespace, &mut resolver) {
            false => Some(("NotAllowed", "the Gateway does not allow ListenerSets of this namespace")),
            true if !own.is_served() => Some(("ParentNotAccepted", "the Gateway is not accepted")),
            true if accepted.is_exhausted(&key.namespace) => {
                Some(("TooManyListeners", "older ListenerSets use up the listeners of the Gateway or the namespace"))
            }
            true => None,
        };
        if let Some((reason, message)) = refused {
            declared.verdict(None, "Accepted", Status::False, reason, message.to_owned());
            parsed.push(ListenerSetDraft { precedence, set, attached: false, declared });
            continue;
        }
        let mut parser = Parser { gateway, declared, resolver };
        parser.parse_listeners(&set.spec.listeners);
        if key.namespace != gateway.meta.key.namespace {
            parser.check_hosts(&key.namespace);
        }
        accepted.add(&mut parser.declared);
        parsed.push(ListenerSetDraft { precedence, set, attached: true, declared: parser.declared });
        resolver = parser.resolver;
    }
    (parsed, resolver)
}

/// Returns a ListenerSet and its listeners, after they have their ports.
pub fn finish(draft: ListenerSetDraft) -> (AddedSet, Vec<ParsedListener>) {
    let ListenerSetDraft { precedence, set, attached, mut declared } = draft;
    if attached {
        declared.accept(ParsedListener::is_valid);
    }
    let (accepted, bound) = (declared.is_served(), declared.bound_ports());
    let Declared { origin, set: _, listeners, verdicts } = declared;
    let added = AddedSet {
        precedence,
        // The spec of a refused ListenerSet is not hashed. Many refused ListenerSets must not slow down each change of
        // their Gateway.
        revision: match attached {
            true => Revision::new(&set.meta, &(&set.spec, bound)),
            false => Revision::new(&set.meta, &()),
        },
        accepted,
        attached,
        verdicts: verdicts.into(),
        origin,
    };
    (added, listeners)
}
