//! The decisions on a host that precede its virtual hosts: its owner, the host whose rules it copies, its certificate, and the charges
//! for its copies.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::envoy::route::Sizes;
use crate::model::Host;
use crate::settings::Settings;
use crate::translate::charges::{Charge, Size};
use crate::translate::gateway::size;
use crate::translate::host::parent;
use crate::translate::source::{HostClientValidation, Source};
use crate::translate::tls::{self, Asking, Found, Routing, TlsProperties};
use crate::translate::translator::copies::{self, ByPart, CopiedPart, Copier};
use crate::translate::translator::levels::Levels;
use crate::translate::translator::state::Translator;
use crate::translate::translator::state::owners::Standing;

/// The decisions on a host.
pub struct HostDraft<'t> {
    /// The host.
    pub host: Host,
    /// The sources whose rules define it.
    pub standing: Standing<'t>,
    /// The wildcard above it.
    pub above: Option<Host>,
    /// The host whose rules it copies: the first level above with rules.
    pub copied: Option<Host>,
    /// Its certificate, and the problems of TLS entries.
    pub certificate: CertificateSelection,
    /// The objects that make it copy rules.
    pub copier: Option<Copier<'t>>,
    /// The verification of clients: that of the host, or that of the host whose rules it copies.
    pub clients: Option<Arc<HostClientValidation>>,
    /// The charges for its copies.
    pub charges: ByPart,
}

/// The certificate that is selected for a host.
#[derive(Default)]
pub struct CertificateSelection {
    /// The selected TLS properties. `None`: the host has no filter chain.
    pub chain: Option<TlsProperties>,
    /// What the selection has found.
    pub found: Found,
    /// Whether a served rule or a permitted TLS entry names the host.
    pub is_named: bool,
}

impl CertificateSelection {
    /// Returns the certificate of a host whose connections `by` forwards encrypted: there is none.
    fn of_passthrough(host: &Host, by: &Source, naming: &[Asking]) -> Self {
        let message = || format!("the TLS connections for \"{host}\" are forwarded by {}", by.origin);
        let problems = naming.iter().map(|asking| asking.ignored(host, message())).collect();
        Self { chain: None, found: Found { problems, ..Found::default() }, is_named: true }
    }
}

impl HostDraft<'_> {
    /// Returns whether a served rule names the host.
    pub fn is_in_rules(&self) -> bool {
        !self.standing.served.is_empty()
    }

    /// Returns the first object with a served rule.
    pub fn first(&self) -> Option<&ObjectRef> {
        self.standing.served.first().map(|source| &source.origin)
    }
}

impl Translator {
    /// Decides on a host. `levels` are those of its batch.
    pub(super) fn draft<'t>(&'t self, host: &Host, levels: &Levels<'t>, settings: &Settings) -> HostDraft<'t> {
        let naming = self.naming(host);
        let above = parent(host);
        let site_above = above.as_ref().and_then(|above| self.sites.get(above));
        let standing = self.standing_among(&naming, host, site_above, settings);
        let copied = copied(host, above.as_ref(), &standing, levels);
        let mut draft = HostDraft {
            host: host.clone(),
            standing,
            above,
            copied,
            certificate: CertificateSelection::default(),
            copier: None,
            clients: None,
            charges: ByPart::new(),
        };
        // A certificate for clients without a known server name follows from the settings.
        if *host != Host::Any && !naming.is_empty() {
            let (naming, beside) = asking(host, &draft.standing.with_entries(&naming));
            draft.certificate = match draft.standing.stream() {
                Some((by, stream)) if !stream.is_decrypted => CertificateSelection::of_passthrough(host, by, &naming),
                _ => self.certificate(&draft, &naming, &beside, levels),
            };
            draft.copier = copier(&draft, &naming);
            draft.clients = self.clients(&draft);
            draft.charges = self.charges(&draft, settings);
        }
        draft
    }

    /// Selects the certificate of a host. `naming` are the TLS entries that name it, and `beside` those of its objects that do not.
    fn certificate(
        &self,
        draft: &HostDraft,
        naming: &[Asking],
        beside: &[Asking],
        levels: &Levels,
    ) -> CertificateSelection {
        let HostDraft { host, standing, above, copied, .. } = draft;
        let of_copied = copied.as_ref().filter(|_| !draft.is_in_rules()).and_then(|copied| levels.routing(copied));
        let own = match draft.is_in_rules() {
            true => Routing::new(&standing.served, standing.owner()),
            false => standing.waiting(host),
        };
        let chain_above = above.as_ref().and_then(|above| self.sites.get(above)?.chain.as_ref());
        let default = self.general.ground.default_secret.as_ref();
        let mut found = tls::chain(host, naming, beside, chain_above, default, of_copied.unwrap_or(&own));
        // If only rejected rules and entries name a host, the wildcard above it serves it. With a filter chain for the
        // host, connections for the wildcard would answer its requests with 421.
        let is_named = draft.is_in_rules() || !found.permitted.is_empty();
        let chain = found.chain.take().filter(|_| is_named);
        CertificateSelection { chain, found, is_named }
    }

    /// Returns the verification of the clients of a host. A host that copies the rules of another one must not be a way around it.
    fn clients(&self, draft: &HostDraft) -> Option<Arc<HostClientValidation>> {
        match draft.is_in_rules() {
            true => draft.standing.clients().map(|(_, clients)| clients.clone()),
            false => self.sites.get(draft.copied.as_ref()?)?.clients.clone(),
        }
    }

    /// Returns the charges of a host for the rules and the policies that it copies, and for a filter chain of its own.
    fn charges(&self, draft: &HostDraft, settings: &Settings) -> ByPart {
        let copied = draft.copied.as_ref().and_then(|copied| self.sites.get(copied));
        let mut charges =
            copied.zip(draft.copier.as_ref()).map(|(site, copier)| copier.charges(site)).unwrap_or_default();
        // Rules that name the host end it, except for the names of several labels below a wildcard.
        let copies_default = !draft.is_in_rules() || matches!(draft.host, Host::Wildcard(_));
        let default = self.nameless.catch_all.as_ref().filter(|_| copies_default);
        if let Some((default, copier)) = default.zip(draft.copier.as_ref()) {
            let features = self.scope().features_of(&default.object, &default.unit);
            let size = features.map_or(0, |features| size::of_features(&features, &Sizes::new(settings)));
            charges.extend(copier.charge(size).filter(|_| size > 0).map(|charge| (CopiedPart::DefaultBackend, charge)));
        }
        match (draft.standing.stream(), &draft.host, &draft.certificate.chain) {
            (Some((by, stream)), _, chain) => {
                charges.insert(CopiedPart::KeyPair, copies::of_stream(by, stream, chain.as_ref(), &self.shared.tls));
            }
            (None, Host::Wildcard(_), Some(chain)) => {
                charges.insert(CopiedPart::KeyPair, copies::of_key_pair(chain, settings));
            }
            _ => {}
        }
        let chain = draft.certificate.chain.as_ref();
        if let Some((clients, chain)) = draft.clients.as_ref().filter(|clients| clients.size > 0).zip(chain) {
            let size = Size { open: clients.size, closed: 0 };
            charges.insert(CopiedPart::Clients, Charge { rank: chain.provider.clone(), size });
        }
        charges
    }
}

/// Returns the host whose rules a host copies. If no rule names the host, the first level above with rules serves it. A wildcard with
/// rules needs those without a host.
fn copied(host: &Host, above: Option<&Host>, standing: &Standing, levels: &Levels) -> Option<Host> {
    if *host == Host::Any || !standing.served.is_empty() && !matches!(host, Host::Wildcard(_)) {
        return None;
    }
    let has_rules = |level: &&Host| levels.standing(level).is_some_and(|level| !level.served.is_empty());
    [above, Some(&Host::Any)].into_iter().flatten().find(has_rules).cloned()
}

/// Returns the objects that make a host copy rules: the first one with a rule, or the TLS entries that name it.
fn copier<'t>(draft: &HostDraft<'t>, naming: &[Asking<'t>]) -> Option<Copier<'t>> {
    let CertificateSelection { chain, found, .. } = &draft.certificate;
    match draft.standing.served.first() {
        Some(source) => Some(Copier::Rule(source)),
        None => {
            let entries = found.permitted.iter().filter_map(|at| naming.get(*at).copied()).collect();
            chain.as_ref().and_then(|chain| Copier::entries(entries, chain))
        }
    }
}

/// Returns the TLS entries that name `host`, and the entries for other hosts of the objects that name it in a rule. `sources` are
/// the objects that name the host.
fn asking<'a>(host: &Host, sources: &[&'a Source]) -> (Vec<Asking<'a>>, Vec<Asking<'a>>) {
    let (mut naming, mut beside) = (Vec::new(), Vec::new());
    for &source in sources {
        let Some(places) = source.shared.places(host) else { continue };
        let named = places.entries.iter().filter_map(|at| source.shared.entries.get(*at as usize));
        naming.extend(named.map(|entry| Asking { source, entry }));
        if !places.rules.is_empty() {
            let others = source.shared.beside.iter().filter_map(|at| source.shared.entries.get(*at as usize));
            beside.extend(others.map(|entry| Asking { source, entry }));
        }
    }
    (naming, beside)
}
