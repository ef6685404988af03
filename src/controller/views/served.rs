//! The stores, for those who serve from them, and which of them anybody wants.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lockgate_xds::snapshot::{Snapshot, Store};

/// What one kind of client is served. Clusters, endpoints, secrets and listeners of Envoys are the same in both forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// For Envoys that speak delta on an aggregated stream: routes may be in many small resources.
    Envoy,
    /// For all other Envoys, and for files: each route configuration is one resource, and whole.
    Whole,
    /// For gRPC clients and servers without a proxy.
    Grpc,
}

impl View {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Envoy, Self::Whole, Self::Grpc];

    /// Its name on the debug pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Whole => "whole",
            Self::Grpc => "grpc",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Envoy => 1,
            Self::Whole => 2,
            Self::Grpc => 4,
        }
    }
}

/// Called when a view is wanted that was not.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// A store for each view, and which are wanted. A clone is the same.
#[derive(Clone)]
pub struct Served(Arc<Inner>);

struct Inner {
    primary: View,
    stores: [Arc<Store>; 3],
    wanted: AtomicU8,
    wake: Wake,
}

impl Served {
    pub(super) fn new(primary: View, wake: Wake) -> Self {
        let stores = View::ALL.map(|_| Arc::default());
        Self(Arc::new(Inner { primary, stores, wanted: AtomicU8::new(primary.bit()), wake }))
    }

    /// The view that is always there.
    pub fn primary(&self) -> View {
        self.0.primary
    }

    /// The store of `view`, in which there is nothing as long as nobody wants it.
    pub fn store(&self, view: View) -> &Arc<Store> {
        let [envoy, whole, grpc] = &self.0.stores;
        match view {
            View::Envoy => envoy,
            View::Whole => whole,
            View::Grpc => grpc,
        }
    }

    /// The same, for somebody who wants what is in it: from now on it is kept up to date. What there is comes soon, if
    /// this is the first who wants it.
    pub fn want(&self, view: View) -> &Arc<Store> {
        if self.0.wanted.fetch_or(view.bit(), Ordering::AcqRel) & view.bit() == 0 {
            (self.0.wake)();
        }
        self.store(view)
    }

    /// Wants all of them, of somebody who need not be woken.
    pub(in crate::controller) fn want_all(&self) {
        self.0.wanted.store(u8::MAX, Ordering::Release);
    }

    /// Whether anybody ever wanted `view`.
    pub fn is_wanted(&self, view: View) -> bool {
        self.0.wanted.load(Ordering::Acquire) & view.bit() != 0
    }

    /// The newest snapshot of `view`.
    pub fn newest(&self, view: View) -> Option<Arc<Snapshot>> {
        self.store(view).newest()
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted: Vec<View> = View::ALL.into_iter().filter(|view| self.is_wanted(*view)).collect();
        f.debug_struct("Served").field("wanted", &wanted).finish_non_exhaustive()
    }
}
