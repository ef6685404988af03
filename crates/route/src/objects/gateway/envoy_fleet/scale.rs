//! The number of Envoys of a fleet, and how many of them may be disrupted at a time.

use serde::{Deserialize, Serialize};

/// The number of Envoys of an EnvoyFleet that does not set it.
pub const REPLICAS: u16 = 2;
/// The target of an autoscaler that does not set it, in percent of the request.
const TARGET: u16 = 70;

/// A HorizontalPodAutoscaler for a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FleetAutoscaling {
    /// The minimum number of Envoys. If not set, 2, or `maxReplicas` if that is less.
    #[cfg_attr(feature = "testing", schemars(with = "u16", range(min = 1, max = 1000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<u16>,
    /// The maximum number of Envoys. The settings limit it.
    #[cfg_attr(feature = "testing", schemars(with = "u16", range(min = 1, max = 1000)))]
    pub max_replicas: u16,
    /// The target CPU utilization in percent of the request, 70 if not set.
    #[cfg_attr(feature = "testing", schemars(with = "u16", range(min = 1, max = 1000)))]
    #[serde(rename = "targetCPUUtilizationPercentage", skip_serializing_if = "Option::is_none")]
    pub target_cpu: Option<u16>,
}

impl FleetAutoscaling {
    /// Returns the minimum number of Envoys.
    pub fn min(&self) -> u16 {
        self.min_replicas.unwrap_or_else(|| REPLICAS.min(self.max_replicas))
    }

    /// Returns the target CPU utilization in percent of the request.
    pub fn target(&self) -> u16 {
        self.target_cpu.unwrap_or(TARGET)
    }
}

/// The limit of disrupted Envoys. One of the two fields is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FleetDisruptionBudget {
    /// The maximum number of unavailable Envoys, or a percentage.
    #[cfg_attr(feature = "testing", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<PodCount>,
    /// The minimum number of available Envoys, or a percentage.
    #[cfg_attr(feature = "testing", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<PodCount>,
}

/// A number of pods, or a percentage of them: `1`, `50%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PodCount {
    /// A number.
    Number(i64),
    /// A percentage, as text.
    Percentage(String),
}

impl PodCount {
    /// Returns the number of pods among `all`. A percentage is rounded up, as Kubernetes does. `None`: not valid.
    pub fn among(&self, all: u16) -> Option<u32> {
        match self {
            Self::Number(number) => u32::try_from(*number).ok(),
            Self::Percentage(text) => {
                let digits =
                    text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
                let percent: u32 = digits.parse().ok().filter(|percent| *percent <= 100)?;
                Some((percent * u32::from(all)).div_ceil(100))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_of_pods_is_rounded_up() {
        let among = |json: serde_json::Value| serde_json::from_value::<PodCount>(json).ok()?.among(3);
        let valid = ["0%", "1%", "34%", "67%", "100%"].map(|text| among(text.into()));
        assert_eq!(valid, [0, 1, 2, 3, 3].map(Some));
        assert_eq!([0, 5].map(|number| among(number.into())), [Some(0), Some(5)]);
        assert_eq!(["", "%", "1", "101%", "+1%", "99999999999%"].map(|text| among(text.into())), [None; 6]);
        assert_eq!(among((-1).into()), None);
    }

    #[test]
    fn an_autoscaler_has_defaults() {
        let of = |max_replicas| FleetAutoscaling { max_replicas, ..FleetAutoscaling::default() };
        assert_eq!((of(1).min(), of(9).min(), of(9).target()), (1, 2, 70));
    }
}
