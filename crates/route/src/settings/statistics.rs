//! Settings of the statistics of single objects.

/// The statistics that Envoy keeps for single objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatisticsSettings {
    /// The maximum number of objects with statistics, counted once for each of their hosts. 0 means none.
    pub max_objects: u32,
}
