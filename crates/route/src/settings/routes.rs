//! Settings of the way in which Envoys get the routes of plain HTTP.

/// The routes of plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Routes {
    /// How Envoys get them.
    pub discovery: Discovery,
}

/// How Envoys get the routes of plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discovery {
    /// As suits each Envoy best.
    #[default]
    Auto,
    /// In one piece.
    Rds,
    /// Each virtual host by itself, for Envoys that can: those on an aggregated delta stream.
    Vhds,
    /// In a fixed number of pieces.
    Buckets,
}
