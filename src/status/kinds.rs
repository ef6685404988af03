//! The kinds that the leader writes and that the translation does not read.

use lockgate_route::objects::{Kind, KindInfo};

/// The Deployment of the Envoys of a fleet.
pub(super) const DEPLOYMENT: Kind =
    Kind::new(&KindInfo { name: "Deployment", group: "apps", plural: "deployments", ..COMMON });
/// The limit of Envoys of a fleet that node drains evict at the same time.
pub(super) const POD_DISRUPTION_BUDGET: Kind =
    Kind::new(&KindInfo { name: "PodDisruptionBudget", group: "policy", plural: "poddisruptionbudgets", ..COMMON });
/// The autoscaler of a Deployment.
pub(super) const HORIZONTAL_POD_AUTOSCALER: Kind = Kind::new(&KindInfo {
    name: "HorizontalPodAutoscaler",
    group: "autoscaling",
    version: "v2",
    plural: "horizontalpodautoscalers",
    ..COMMON
});
/// The Lease of the leader.
pub(super) const LEASE: Kind =
    Kind::new(&KindInfo { name: "Lease", group: "coordination.k8s.io", plural: "leases", ..COMMON });
/// A report on another object.
pub(super) const EVENT: Kind =
    Kind::new(&KindInfo { name: "Event", group: "events.k8s.io", plural: "events", ..COMMON });

/// The common properties: a namespaced kind of version v1.
const COMMON: KindInfo = KindInfo { name: "", plural: "", has_status: false, ..*Kind::SERVICE.info() };
