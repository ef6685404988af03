//! The text format of localities on the command line.

use std::str::FromStr;

use envoy_types::pb::envoy::config::core::v3 as core_v3;

/// A locality: `REGION/ZONE/SUB_ZONE`. Unknown parts are empty, or are omitted at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locality {
    /// The region.
    pub region: String,
    /// The zone: the value of the label `topology.kubernetes.io/zone`.
    pub zone: String,
    /// A part of the zone.
    pub sub_zone: String,
}

impl Locality {
    /// Returns the message.
    pub fn message(&self) -> core_v3::Locality {
        let Self { region, zone, sub_zone } = self.clone();
        core_v3::Locality { region, zone, sub_zone }
    }
}

impl FromStr for Locality {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(4, '/').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let locality = Self { region: part(), zone: part(), sub_zone: part() };
        match parts.next() {
            // A pod on a node without zones has the locality `/`.
            None if !text.is_empty() => Ok(locality),
            _ => Err("expected REGION/ZONE/SUB_ZONE, such as eu-west/eu-west-1a or /eu-west-1a".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_may_be_left_out() {
        let read = |text: &str| {
            let Locality { region, zone, sub_zone } = text.parse().unwrap();
            [region, zone, sub_zone]
        };
        assert_eq!(read("eu/a/rack"), ["eu", "a", "rack"]);
        assert_eq!(read("eu"), ["eu", "", ""]);
        assert_eq!(read("/a"), ["", "a", ""]);
        assert_eq!(read("/"), ["", "", ""]);
        for text in ["", "a/b/c/d"] {
            assert!(text.parse::<Locality>().is_err(), "{text}");
        }
    }
}
