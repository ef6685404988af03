//! The rules that the hosts of a batch depend on: those of the wildcards above them, and the rules without a host.
//!
//! Thousands of hosts can depend on the same thousands of rules, so these are determined once for the hosts of a batch, and only if a
//! host needs them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::state::Translator;
use super::state::owners::Standing;
use crate::model::Host;
use crate::settings::Settings;
use crate::translate::host::parent;
use crate::translate::tls::Routing;
use crate::translate::virtual_host::HostRules;

/// The wildcards above the hosts of a batch, and [`Host::Any`].
pub struct Levels<'t> {
    translator: &'t Translator,
    settings: &'t Settings,
    levels: BTreeMap<Host, Level<'t>>,
}

/// A host with rules that other hosts copy.
#[derive(Default)]
struct Level<'t> {
    standing: OnceLock<Standing<'t>>,
    routing: OnceLock<Routing>,
    rules: OnceLock<HostRules<'t>>,
}

impl<'t> Levels<'t> {
    /// Returns the levels of `hosts`.
    pub fn new(translator: &'t Translator, hosts: &[Host], settings: &'t Settings) -> Self {
        let above = hosts.iter().filter_map(parent).filter(|above| translator.sites.get(above).is_some());
        let levels = above.chain([Host::Any]).map(|host| (host, Level::default())).collect();
        Self { translator, settings, levels }
    }

    /// Returns the Ingresses with rules for a level. `None`: no Ingress names it.
    pub fn standing(&self, host: &Host) -> Option<&Standing<'t>> {
        let level = self.levels.get(host)?;
        Some(level.standing.get_or_init(|| self.translator.standing(host, self.settings)))
    }

    /// Returns the namespaces whose rules serve a level.
    pub fn routing(&self, host: &Host) -> Option<&Routing> {
        let standing = self.standing(host)?;
        self.levels
            .get(host)
            .map(|level| level.routing.get_or_init(|| Routing::new(&standing.served, standing.owner())))
    }

    /// Returns the merged rules of a level. Their problems are reported where the host itself is built.
    pub fn rules(&self, host: &Host) -> Option<&HostRules<'t>> {
        let standing = self.standing(host)?;
        let merge = || self.translator.merge(host, &standing.served, self.settings, &mut Vec::new());
        self.levels.get(host).map(|level| level.rules.get_or_init(merge))
    }
}
