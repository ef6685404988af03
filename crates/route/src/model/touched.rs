//! Which parts of a model have changed, so that what is made of it is made anew only there.

use std::collections::BTreeSet;

use super::{ClusterName, Host, Model, SecretName};

/// The entries of a [`Model`] that were added, changed or removed since somebody looked last. One that is touched may
/// also be as it was; one that is not is as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Of [`Model::http`].
    pub http: BTreeSet<Host>,
    /// Of [`Model::https`] and [`Model::refused`].
    pub https: BTreeSet<Host>,
    /// Of [`Model::clusters`].
    pub clusters: BTreeSet<ClusterName>,
    /// Of [`Model::endpoints`].
    pub endpoints: BTreeSet<ClusterName>,
    /// Of [`Model::secrets`].
    pub secrets: BTreeSet<SecretName>,
    /// [`Model::stats_tls`].
    pub stats_tls: bool,
}

impl Touched {
    /// Everything that `model` has.
    pub fn all(model: &Model) -> Self {
        Self {
            http: model.http.keys().cloned().collect(),
            https: model.https.keys().chain(&model.refused).cloned().collect(),
            clusters: model.clusters.keys().cloned().collect(),
            endpoints: model.endpoints.keys().cloned().collect(),
            secrets: model.secrets.keys().cloned().collect(),
            stats_tls: true,
        }
    }

    /// Whether nothing is touched.
    pub fn is_empty(&self) -> bool {
        let Self { http, https, clusters, endpoints, secrets, stats_tls } = self;
        let hosts = http.is_empty() && https.is_empty();
        hosts && clusters.is_empty() && endpoints.is_empty() && secrets.is_empty() && !stats_tls
    }

    /// Takes in what `other` has touched.
    pub fn extend(&mut self, other: Self) {
        let Self { http, https, clusters, endpoints, secrets, stats_tls } = other;
        self.http.extend(http);
        self.https.extend(https);
        self.clusters.extend(clusters);
        self.endpoints.extend(endpoints);
        self.secrets.extend(secrets);
        self.stats_tls |= stats_tls;
    }
}
