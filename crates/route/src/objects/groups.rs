//! The API groups of the kinds that CustomResourceDefinitions declare, and the common properties of their kinds.

use super::kind::{Grouping, KindInfo};

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// The API group of the experimental kinds of Gateway API.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";

/// The API group of Lockgate.
pub const LOCKGATE: &str = "lockgate.dev";

/// The API group of Envoy Gateway.
pub const ENVOY_GATEWAY: &str = "gateway.envoyproxy.io";

/// The API group of Contour.
pub const CONTOUR: &str = "projectcontour.io";

/// The defaults of the table.
pub const COMMON: KindInfo = KindInfo {
    name: "",
    group: "",
    version: "v1",
    other_versions: &[],
    plural: "",
    namespaced: true,
    optional: false,
    of_gateway_api: false,
    grouping: Grouping::Alone,
    deletion_waits: false,
    deletion_demotes: false,
    foreign_annotations: false,
    selected_by_labels: false,
    has_status: false,
    named_by_others: true,
};

/// The common properties of the kinds of Gateway API.
pub const GATEWAY_API: KindInfo = KindInfo {
    group: GROUP,
    other_versions: &["v1beta1"],
    optional: true,
    of_gateway_api: true,
    deletion_waits: true,
    has_status: true,
    ..COMMON
};

/// The common properties of the policies of Envoy Gateway.
pub const ENVOY_GATEWAY_POLICY: KindInfo = KindInfo {
    group: ENVOY_GATEWAY,
    version: "v1alpha1",
    optional: true,
    of_gateway_api: true,
    deletion_waits: true,
    named_by_others: false,
    ..COMMON
};

/// The common properties of the kinds of Contour.
pub const CONTOUR_KIND: KindInfo = KindInfo { group: CONTOUR, optional: true, deletion_waits: true, ..COMMON };
