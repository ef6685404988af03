//! A gauge family whose series are replaced as a whole.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// A family whose series are replaced as a whole. A series that stays is never missing in between, even for a scrape at the same
/// time.
#[derive(Debug)]
pub(super) struct Replaced<L: Debug + Clone + Hash + Eq> {
    family: Family<L, Gauge>,
    labels: Mutex<HashSet<L>>,
}

impl<L: Debug + Clone + Hash + Eq> Default for Replaced<L> {
    fn default() -> Self {
        Self { family: Family::default(), labels: Mutex::default() }
    }
}

impl<L: Debug + Clone + Hash + Eq + EncodeLabelSet + Send + Sync + 'static> Replaced<L> {
    /// Returns the family, to register it.
    pub fn family(&self) -> Family<L, Gauge> {
        self.family.clone()
    }

    /// Sets all series.
    pub fn replace(&self, series: impl IntoIterator<Item = (L, i64)>) {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *labels);
        for (label, value) in series {
            self.family.get_or_create(&label).set(value);
            before.remove(&label);
            labels.insert(label);
        }
        for gone in before {
            self.family.remove(&gone);
        }
    }
}
