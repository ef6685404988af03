//! EnvoyFleets: the Envoys that serve a single Gateway.
//!
//! `make crds` writes the CustomResourceDefinition from these types. A tenant writes these objects, and the pods run in
//! the namespace of the controller. Fields that could reach other pods or the node are therefore absent on purpose.
//! Examples are images, commands, volumes, security contexts, labels and annotations of pods, priorities, and pod
//! affinity.

mod exposure;
mod scale;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

pub use exposure::FleetService;
pub use scale::{FleetAutoscaling, FleetDisruptionBudget, PodCount, REPLICAS};

use crate::objects::meta::Meta;

/// An EnvoyFleet.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvoyFleet {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: EnvoyFleetSpec,
}

/// The dedicated Envoys of each Gateway that refers to the EnvoyFleet. All other properties are the same as in the pods
/// of the shared Envoys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyFleetSpec {
    /// The number of Envoys, 2 if not set. The settings limit it. Excludes `autoscaling`.
    #[cfg_attr(feature = "testing", schemars(with = "u16", range(min = 1, max = 1000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u16>,
    /// A HorizontalPodAutoscaler that sets the number of Envoys.
    #[cfg_attr(feature = "testing", schemars(with = "FleetAutoscaling"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<FleetAutoscaling>,
    /// The PodDisruptionBudget, which limits the Envoys that node drains remove at a time. If not set, one Envoy at a time.
    #[cfg_attr(feature = "testing", schemars(with = "FleetDisruptionBudget"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<FleetDisruptionBudget>,
    /// The Service of the Gateway.
    #[cfg_attr(feature = "testing", schemars(with = "FleetService"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<FleetService>,
    /// The number of worker threads of an Envoy. The CPU limit, rounded up, if not set.
    #[cfg_attr(feature = "testing", schemars(with = "u16", range(min = 1, max = 256)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u16>,
    /// The resources of an Envoy. Default: the resources of the shared Envoys. The settings limit them.
    #[cfg_attr(feature = "testing", schemars(with = "FleetResources"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<FleetResources>,
    /// The labels that a node needs. Default: the node selector of the shared Envoys.
    #[cfg_attr(feature = "testing", schemars(length(max = 16)))]
    pub node_selector: BTreeMap<String, String>,
    /// The taints of nodes that the pods tolerate. Default: the tolerations of the shared Envoys.
    #[cfg_attr(feature = "testing", schemars(length(max = 16)))]
    pub tolerations: Vec<FleetToleration>,
}

impl EnvoyFleetSpec {
    /// Returns this spec with the fields of `defaults` that it does not set. `replicas` and `autoscaling` exclude each other, so
    /// one of them replaces both.
    #[must_use]
    pub fn or(self, defaults: &Self) -> Self {
        let Self {
            replicas,
            autoscaling,
            pod_disruption_budget,
            service,
            concurrency,
            resources,
            node_selector,
            tolerations,
        } = defaults.clone();
        let sets_scale = self.replicas.is_some() || self.autoscaling.is_some();
        Self {
            replicas: if sets_scale { self.replicas } else { replicas },
            autoscaling: if sets_scale { self.autoscaling } else { autoscaling },
            pod_disruption_budget: self.pod_disruption_budget.or(pod_disruption_budget),
            service: self.service.or(service),
            concurrency: self.concurrency.or(concurrency),
            resources: self.resources.or(resources),
            node_selector: if self.node_selector.is_empty() { node_selector } else { self.node_selector },
            tolerations: if self.tolerations.is_empty() { tolerations } else { self.tolerations },
        }
    }
}

/// The resources of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FleetResources {
    /// The reserved resources.
    pub requests: FleetQuantities,
    /// The limits.
    pub limits: FleetQuantities,
}

/// Amounts of CPU and memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FleetQuantities {
    /// CPUs, such as `500m` or `2`.
    #[cfg_attr(feature = "testing", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory, such as `512Mi`.
    #[cfg_attr(feature = "testing", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// A taint of nodes that pods tolerate. Source: Kubernetes v1, `Toleration`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FleetToleration {
    /// The key of the taint. All taints if not set, with the operator `Exists`.
    #[cfg_attr(feature = "testing", schemars(with = "String", length(max = 316)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal`, which is the default, or `Exists`.
    #[cfg_attr(feature = "testing", schemars(with = "String", extend("enum" = ["Equal", "Exists"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The value of the taint.
    #[cfg_attr(feature = "testing", schemars(with = "String", length(max = 63)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The effect of the taint. All effects if not set.
    #[cfg_attr(feature = "testing", schemars(with = "String", extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// How long a pod stays on a node with the effect `NoExecute`.
    #[cfg_attr(feature = "testing", schemars(with = "i64"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// An amount, as Kubernetes writes it: a text or a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quantity(String);

impl Quantity {
    /// Returns the quantity with this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the amount in thousandths of a CPU, rounded up. Returns `None` if the text is not an amount of CPU.
    pub fn millis(&self) -> Option<u64> {
        self.times(1000)
    }

    /// Returns the amount in bytes, rounded up. Returns `None` if the text is not an amount of memory.
    pub fn bytes(&self) -> Option<u64> {
        self.times(1)
    }

    /// Returns whether both are amounts, and the same one: `1000m` and `1`.
    pub fn is_same(&self, other: &Self) -> bool {
        let product = |(a, b): (u128, u128)| a.checked_mul(b);
        self.ratio().zip(other.ratio()).is_some_and(|((up, down), (other_up, other_down))| {
            let (left, right) = (product((up, other_down)), product((other_up, down)));
            left.is_some() && left == right
        })
    }

    /// Returns the amount times `scale`, rounded up. Amounts beyond 64 bits are the largest one, as in Kubernetes.
    fn times(&self, scale: u128) -> Option<u64> {
        let (up, down) = self.ratio()?;
        Some(u64::try_from(up.saturating_mul(scale).div_ceil(down)).unwrap_or(u64::MAX))
    }

    /// Returns the amount as a fraction, if the API server accepts it. Excessively long texts are not accepted. Source: Kubernetes,
    /// `resource.Quantity`.
    fn ratio(&self) -> Option<(u128, u128)> {
        const LONGEST: usize = 32;
        let text = Some(&*self.0).filter(|text| text.len() <= LONGEST)?;
        let text = text.strip_prefix('+').unwrap_or(text);
        let (number, suffix) =
            text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len()));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        // A second point is not a digit.
        let mantissa: u128 = format!("{whole}{part}").parse().ok()?;
        let (up, down) = unit(suffix)?;
        let part = 10u128.saturating_pow(u32::try_from(part.len()).ok()?);
        Some((mantissa.saturating_mul(up), part.saturating_mul(down)))
    }
}

/// Returns the factor and the divisor of a suffix.
fn unit(suffix: &str) -> Option<(u128, u128)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const ONE: usize = 3;
    if let Some(at) = BINARY.iter().position(|unit| *unit == suffix) {
        return Some((1 << (10 * (at + 1)), 1));
    }
    if let Some(at) = DECIMAL.iter().position(|unit| *unit == suffix) {
        let thousands = |count: usize| u32::try_from(count).ok().and_then(|count| 1000u128.checked_pow(count));
        return Some((thousands(at.saturating_sub(ONE))?, thousands(ONE.saturating_sub(at))?));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10u128.saturating_pow(exponent.unsigned_abs());
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(serde_json::Number),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Text(text) => Self(text),
            Form::Number(number) => Self(number.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_numbers_with_units() {
        let millis = |text: &str| Quantity::new(text).millis();
        let amounts = ["500m", "2", "1.5", "0.1234", "1e3", "1.", ".5", "1n", "1k", "20e-1", "0", "+1"].map(millis);
        assert_eq!(amounts, [500, 2000, 1500, 124, 1_000_000, 1000, 500, 1, 1_000_000, 2000, 0, 1000].map(Some));
        let bytes = |text: &str| Quantity::new(text).bytes();
        let amounts = ["512Mi", "1G", "7", "1.5Gi", "1E", "1Ei", "1500m"].map(bytes);
        assert_eq!(amounts, [512 << 20, 1_000_000_000, 7, 1_610_612_736, 10u64.pow(18), 1 << 60, 2].map(Some));
        // The API server accepts amounts beyond 64 bits.
        for text in ["1E", "100Ei", "1e400", "99999999999999999999", "9999999999999999999999999999E"] {
            assert_eq!(millis(text), Some(u64::MAX), "{text}");
        }
        assert_eq!((bytes("100E"), bytes("1e-400")), (Some(u64::MAX), Some(1)));
        // `GiB` and `B` are units of settings.
        let longest = "9".repeat(10_000);
        for text in [
            "",
            ".",
            "m",
            "-1",
            "++1",
            "+-1",
            "1..2",
            "1.2.3",
            "2 ",
            "1.éé",
            "1.123é",
            "lots",
            "1GiB",
            "1B",
            "1K",
            "1mi",
            "1e",
            "1e9999999999",
            "1e1.5",
            &longest,
        ] {
            assert_eq!((millis(text), bytes(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn two_texts_may_be_the_same_amount() {
        let is_same = |a: &str, b: &str| Quantity::new(a).is_same(&Quantity::new(b));
        for (a, b) in [("1000m", "1"), ("1024Mi", "1Gi"), ("0.5", "500m"), ("1E", "1000P"), ("1e3", "1k"), ("0", "0Gi")]
        {
            assert!(is_same(a, b) && is_same(b, a), "{a} {b}");
        }
        for (a, b) in [("100m", "200m"), ("1", "1Ki"), ("1E", "2E"), ("1n", "1u"), ("lots", "lots")] {
            assert!(!is_same(a, b) && !is_same(b, a), "{a} {b}");
        }
    }

    #[test]
    fn quantities_may_be_numbers() {
        let spec = serde_json::json!({ "resources": { "limits": { "cpu": 2, "memory": "1Gi" } } });
        let spec: EnvoyFleetSpec = serde_json::from_value(spec).unwrap_or_default();
        let limits = spec.resources.unwrap_or_default().limits;
        assert_eq!(limits.cpu.and_then(|cpu| cpu.millis()), Some(2000));
        assert_eq!(limits.memory.and_then(|memory| memory.bytes()), Some(1 << 30));
    }

    #[test]
    fn a_spec_replaces_the_fields_of_its_defaults() {
        let read = |spec| serde_json::from_value::<EnvoyFleetSpec>(spec).unwrap_or_default();
        let budget = serde_json::json!({ "minAvailable": "50%" });
        let defaults = read(serde_json::json!({
            "replicas": 3, "podDisruptionBudget": budget, "concurrency": 2, "nodeSelector": { "a": "b" },
            "tolerations": [{ "key": "a", "operator": "Exists" }], "service": { "type": "ClusterIP" },
            "resources": { "limits": { "cpu": 1 } },
        }));
        assert_eq!(EnvoyFleetSpec::default().or(&defaults), defaults);
        let own = read(serde_json::json!({
            "autoscaling": { "maxReplicas": 4 }, "concurrency": 1, "nodeSelector": { "c": "d" },
            "resources": { "limits": { "memory": "1Gi" } },
        }));
        let merged = own.clone().or(&defaults);
        assert_eq!((merged.replicas, &merged.autoscaling), (None, &own.autoscaling), "one of the two replaces both");
        assert_eq!((&merged.concurrency, &merged.resources), (&own.concurrency, &own.resources));
        assert_eq!((&merged.node_selector, &merged.tolerations), (&own.node_selector, &defaults.tolerations));
        assert_eq!(
            (&merged.service, &merged.pod_disruption_budget),
            (&defaults.service, &defaults.pod_disruption_budget)
        );
    }
}
