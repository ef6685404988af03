//! The trait of each kind with a status: the status that an object should have, and its patch.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::IngressLoadBalancerIngress;
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::{ObjectKey, Typed};
use lockgate_route::translate::Verdict;
use serde_json::Value;

use super::fault::Faults;
use crate::inspection::{Inspection, Published, changed_sources};

/// An address of the Envoys in the status of an Ingress.
pub(crate) type LoadBalancerAddress = IngressLoadBalancerIngress;

/// The content of objects of one kind that have a status.
///
/// [`Queue`](super::queue::Queue) decides when to write. This trait contains everything that depends on the kind.
pub(super) trait HasStatus: Typed {
    /// The part of the status that Lockgate writes. Equal values need no write.
    type Status: Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static;

    /// Returns the `metadata.resourceVersion` of the object.
    fn version(&self) -> &Arc<str>;

    /// Returns the next status of the object. `None`: the status is up to date, or belongs to another controller.
    ///
    /// A status that shows progress has several consecutive goals. The queue requests the next goal when the watch delivers the
    /// last one.
    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>>;

    /// Returns the merge patch of the field `status`. If the goal needs acceptance, `envoys` is the number of Envoys that have
    /// accepted the object.
    fn patch(&self, status: &Self::Status, envoys: usize, now: Timestamp) -> Value;

    /// Returns the description of a status for the log line and the Event `Programmed`: `reachable at 192.0.2.1`.
    fn summary(status: &Self::Status) -> String;

    /// Returns the objects whose facts differ, even if the objects themselves are equal.
    fn changed(before: &Inputs, now: &Inputs) -> BTreeSet<ObjectKey> {
        changed_sources(Self::KIND, &before.inspection, &now.inspection).cloned().collect()
    }
}

/// The inputs of all statuses.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// The state of the controller's loop.
    pub inspection: Arc<Inspection>,
    /// The facts from other sources.
    pub external: ExternalFacts,
}

/// The facts that do not come from the controller's loop.
#[derive(Debug, Clone, Default)]
pub(super) struct ExternalFacts {
    /// The addresses of the Envoys; empty while they are unknown.
    pub addresses: Arc<[LoadBalancerAddress]>,
    /// The name of the controller in GatewayClasses and in the status of routes.
    pub controller: Arc<str>,
    /// The Gateways that cannot have a Service, each with the reason.
    pub faults: Faults,
}

impl From<Arc<[LoadBalancerAddress]>> for ExternalFacts {
    fn from(addresses: Arc<[LoadBalancerAddress]>) -> Self {
        Self { addresses, ..Self::default() }
    }
}

/// The facts that determine a status, apart from the object itself.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// The field manager of this installation.
    pub manager: &'a str,
    /// The addresses of the Envoys; empty while they are unknown.
    pub addresses: &'a [LoadBalancerAddress],
    /// The publication that serves the object. `None`: Lockgate does not serve the object.
    pub published: Option<&'a Published>,
    /// Whether Lockgate served the object, and its status is not withdrawn yet.
    pub withdrawing: bool,
    /// The verdicts on the object.
    pub verdicts: &'a [Verdict],
    /// The state of the controller's loop.
    pub inspection: &'a Inspection,
    /// The name of the controller in GatewayClasses and in the status of routes.
    pub controller: &'a str,
    /// The Gateways that cannot have a Service, each with the reason.
    pub faults: &'a Faults,
}

#[cfg(test)]
impl<'a> Facts<'a> {
    /// The name of the controller in [`Facts::example`].
    pub const CONTROLLER: &'static str = "lockgate.dev/gateway-controller";

    /// Returns facts without addresses of Envoys and without faults of Gateways.
    pub fn example(inspection: &'a Inspection, published: Option<&'a Published>, verdicts: &'a [Verdict]) -> Self {
        static NO_FAULTS: std::sync::LazyLock<Faults> = std::sync::LazyLock::new(Faults::new);
        Self {
            manager: "us",
            addresses: &[],
            published,
            withdrawing: false,
            verdicts,
            inspection,
            controller: Self::CONTROLLER,
            faults: &NO_FAULTS,
        }
    }
}

/// The status that an object should have next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal<S> {
    /// The status.
    pub status: S,
    /// The publication that all Envoys must have accepted first, if the status depends on it.
    pub needs: Option<Published>,
    /// The status to write if they take long.
    pub interim: Option<S>,
    /// A hash of the facts behind the goal, without the revision. Repeated writes for the same facts indicate a conflict with
    /// another writer, so the queue delays them. It does not delay writes for new facts.
    pub cause: u64,
}

impl<S> Goal<S> {
    /// Creates a goal that does not depend on Envoys.
    pub fn at_once(status: S, cause: u64) -> Self {
        Self { status, needs: None, interim: None, cause }
    }
}
