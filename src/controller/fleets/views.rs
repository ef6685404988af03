//! The views of one fleet: the same listeners and routes, in the form that each kind of client needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use lockgate_route::envoy::{Builder, Change, Forms};
use lockgate_route::model::{ListenerId, Touched};
use lockgate_route::settings::RouteDiscoveryMode;
use lockgate_xds::snapshot::{Changes, Resource, ResourceType};

use super::class::View;
use super::grpc;
use super::pace::Pace;
use super::publication::{Publication, SharedUpdate};
use super::whole::WholeViews;

/// The views of one fleet. A view is built when its first client requests it, because it costs memory, and time at each
/// change.
#[derive(Debug)]
pub struct Views {
    /// The view that always exists.
    primary: View,
    builder: Builder,
    pub(super) whole: WholeViews,
    grpc: Pace,
}

impl Views {
    /// Returns views of which `primary` always exists.
    pub fn new(primary: View) -> Self {
        Self { primary, builder: Builder::default(), whole: WholeViews::default(), grpc: Pace::default() }
    }

    /// Returns the numbers of objects with and without statistics, once for each host.
    pub fn statistics(&self) -> (usize, usize) {
        self.builder.statistics().counts()
    }

    /// Returns the view that always exists.
    pub fn primary(&self) -> View {
        self.primary
    }

    /// Returns when [`Views::update`] has work although nothing has changed.
    pub fn due(&self) -> Option<Instant> {
        self.whole.pace.due().into_iter().chain(self.grpc.due()).min()
    }

    /// Publishes a change, and builds views that are newly requested or due. Listeners in `hidden` are not published, but all that
    /// their open connections need is. Returns the changes of the primary view.
    pub fn update(&mut self, change: Change<'_>, hidden: &BTreeSet<ListenerId>, to: &Publication<'_>) -> Arc<Changes> {
        let Change { model, touched, settings, settings_changed } = change;
        let requested = to.requested();
        let is_new = |view: &View| to.newest(*view).is_none();
        let everything = settings_changed || is_new(&self.primary);
        let by_host = requested.contains(&View::Envoy) && settings.routes.discovery != RouteDiscoveryMode::Rds;
        let whole: Vec<View> = requested.iter().copied().filter(|view| is_whole(*view, by_host)).collect();
        // Files are read by people, too.
        let forms = Forms { vhds: by_host, rds: false, no_scopes: self.primary == View::Whole };
        let mut built = self.builder.update(change, forms);
        hide(&mut built.shared, hidden);
        let mut changes = Arc::default();
        if by_host {
            let mut update = joined(&built.shared, built.vhds);
            if settings_changed {
                // Left over from the time when the settings asked for complete route configurations.
                update.remove.extend(self.whole.retained.iter().cloned());
            }
            changes = to.publish(View::Envoy, update, true, &changes);
        }
        if whole.is_empty() {
            self.whole = WholeViews::default();
        } else {
            self.whole.pace.stale |=
                everything || built.statistics_moved || touched.has_plain_routes(model) || whole.iter().any(is_new);
            let mut routes = built.rds;
            if self.whole.pace.is_due(to.start) {
                let begin = Instant::now();
                let unchanged = Change { touched: &Touched::default(), settings_changed: false, ..change };
                routes = joined(&routes, self.builder.update(unchanged, Forms { rds: true, ..forms }).rds);
                self.whole.pace.built(begin, Instant::now());
            }
            changes = self.whole.publish((&whole, self.primary), &built.shared, &routes, to, changes);
        }
        if requested.contains(&View::Grpc) {
            let leads_elsewhere = touched.has_routes() || !touched.clusters.is_empty();
            self.grpc.stale |= everything || leads_elsewhere || is_new(&View::Grpc);
            grpc::publish(&mut self.grpc, model, to.newest(self.primary), &built.shared, to, &changes);
        }
        changes
    }
}

/// Removes listeners instead of setting them.
fn hide(update: &mut SharedUpdate, hidden: &BTreeSet<ListenerId>) {
    if hidden.is_empty() {
        return;
    }
    let is_hidden = |resource: &Resource| {
        resource.kind() == ResourceType::LISTENER && hidden.iter().any(|id| id.name() == resource.name())
    };
    update.set.retain(|resource| !is_hidden(resource));
    update.remove.extend(hidden.iter().map(|id| (ResourceType::LISTENER, id.name().clone())));
}

/// Returns whether a view has complete route configurations.
fn is_whole(view: View, by_host: bool) -> bool {
    match view {
        View::Envoy => !by_host,
        View::Whole => true,
        View::Grpc => false,
    }
}

/// Returns `update` followed by `more`.
fn joined(update: &SharedUpdate, more: SharedUpdate) -> SharedUpdate {
    let set = update.set.iter().cloned().chain(more.set).collect();
    SharedUpdate { set, remove: update.remove.iter().cloned().chain(more.remove).collect() }
}
