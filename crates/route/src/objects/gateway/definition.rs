//! The CustomResourceDefinitions of Gateway API: their version and their release channel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::objects::meta::Meta;
use crate::objects::store::Objects;

/// The annotation with the version of the bundle that a CustomResourceDefinition belongs to.
pub const BUNDLE: &str = "gateway.networking.k8s.io/bundle-version";

/// The annotation with the release channel of a CustomResourceDefinition.
pub const CHANNEL: &str = "gateway.networking.k8s.io/channel";

/// The supported version, without the patch level.
pub const SUPPORTED: &str = "v1.6";

/// The definition whose channel decides whether HTTPRoutes have experimental fields.
const HTTP_ROUTES: &str = "httproutes.gateway.networking.k8s.io";

/// A CustomResourceDefinition of Gateway API. Only its metadata is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The metadata. The name is `gateways.gateway.networking.k8s.io`.
    pub meta: Meta,
    /// The annotation [`BUNDLE`], for example `v1.6.3`.
    pub bundle: Option<Arc<str>>,
    /// The annotation [`CHANNEL`]: `standard` or `experimental`.
    pub channel: Option<Arc<str>>,
}

/// A version and a channel, if the annotations exist.
type Release = (Option<Arc<str>>, Option<Arc<str>>);

/// The releases of Gateway API in a Kubernetes cluster. Usually, there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The names of the definitions of each release.
    releases: BTreeMap<Release, BTreeSet<Arc<str>>>,
    /// Whether HTTPRoutes have the fields of the experimental channel.
    pub experimental: bool,
}

impl Installed {
    /// Returns the releases of all definitions. Returns `None` if no definition is known.
    pub fn of(objects: &Objects) -> Option<Self> {
        let mut releases = BTreeMap::<Release, BTreeSet<Arc<str>>>::new();
        let mut experimental = false;
        for Definition { meta, bundle, channel } in objects.all::<Definition>() {
            releases.entry((bundle.clone(), channel.clone())).or_default().insert(meta.key.name.clone());
            experimental |= *meta.key.name == *HTTP_ROUTES && channel.as_deref() == Some("experimental");
        }
        (!releases.is_empty()).then_some(Self { releases, experimental })
    }

    /// Returns whether every definition has a supported version.
    pub fn is_supported(&self) -> bool {
        let is_supported = |bundle: &str| {
            bundle.strip_prefix(SUPPORTED).is_some_and(|patch| patch.is_empty() || patch.starts_with('.'))
        };
        self.releases.keys().all(|(bundle, _)| bundle.as_deref().is_some_and(is_supported))
    }
}

/// Displays `v1.6.3 of the standard channel`. If there are several releases, each has the number of its definitions.
impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ((bundle, channel), names)) in self.releases.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            let bundle = bundle.as_deref().unwrap_or("no version");
            write!(f, "{separator}{bundle} of the {} channel", channel.as_deref().unwrap_or("unknown"))?;
            if self.releases.len() > 1 {
                let first = names.first().and_then(|name| name.split('.').next()).unwrap_or_default();
                match names.len() {
                    1 => write!(f, " ({first})")?,
                    count => write!(f, " ({count} definitions, for example {first})")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::gateway::definition;
    use crate::testing::objects::objects;

    fn installed(definitions: &[(&str, &str, &str)]) -> Installed {
        let all = definitions.iter().map(|(name, bundle, channel)| definition(name, bundle, channel));
        Installed::of(&objects(&all.collect::<Vec<_>>())).unwrap()
    }

    #[test]
    fn every_definition_needs_a_supported_version() {
        for (bundle, supported) in [
            ("v1.6.3", true),
            ("v1.6", true),
            ("v1.6.0-rc.1", true),
            ("v1.60.0", false),
            ("v1.5.1", false),
            ("", false),
        ] {
            assert_eq!(installed(&[("gateways", bundle, "standard")]).is_supported(), supported, "{bundle}");
            let both = installed(&[("gateways", bundle, "standard"), ("httproutes", "v1.6.3", "standard")]);
            assert_eq!(both.is_supported(), supported, "{bundle}");
        }
        assert_eq!(Installed::of(&Objects::default()), None);
    }

    #[test]
    fn the_channel_of_http_routes_decides() {
        assert!(!installed(&[("gateways", "v1.6.3", "experimental")]).experimental);
        assert!(installed(&[("httproutes", "v1.6.3", "experimental")]).experimental);
        assert!(!installed(&[("httproutes", "v1.6.3", "standard")]).experimental);
    }

    #[test]
    fn a_mixture_of_releases_is_described() {
        assert_eq!(installed(&[("gateways", "v1.6.3", "standard")]).to_string(), "v1.6.3 of the standard channel");
        let mixed = [("gateways", "v1.6.3", "standard"), ("httproutes", "", ""), ("grpcroutes", "v1.6.3", "standard")];
        assert_eq!(
            installed(&mixed).to_string(),
            "no version of the unknown channel (httproutes), v1.6.3 of the standard channel (2 definitions, for example gateways)"
        );
    }
}
