//! A rate limit service with Envoy's `RateLimitService` API.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::Duration;
use tonic::service::Routes;

use crate::server::{ANY_PORT, Server};

/// A service that permits a fixed number of requests per descriptor.
pub struct Limiter {
    /// The address.
    pub address: SocketAddr,
    counts: Arc<Mutex<BTreeMap<String, u32>>>,
    _server: Server,
}

impl Limiter {
    /// Starts a service on a free port.
    pub async fn start(limit: u32) -> Self {
        Self::start_at(ANY_PORT.into(), limit).await
    }

    /// Starts a service at an address.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn start_at(address: SocketAddr, limit: u32) -> Self {
        let counts = Arc::new(Mutex::new(BTreeMap::new()));
        let service = RateLimitServiceServer::new(Counts { limit, counts: counts.clone() });
        let server = Server::grpc(address, Routes::new(service)).await;
        Self { address: server.address, counts, _server: server }
    }

    /// Returns the number of requests per descriptor, in the form `domain key=value key=value`.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Counts {
    limit: u32,
    counts: Arc<Mutex<BTreeMap<String, u32>>>,
}

#[tonic::async_trait]
impl RateLimitService for Counts {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        let RateLimitRequest { domain, descriptors, .. } = request.into_inner();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statuses = Vec::new();
        for descriptor in descriptors {
            let entries = descriptor.entries.iter().map(|entry| format!(" {}={}", entry.key, entry.value));
            let count = counts.entry([domain.clone()].into_iter().chain(entries).collect()).or_default();
            *count += 1;
            let limit = RateLimit { requests_per_unit: self.limit, unit: Unit::Hour as i32, ..Default::default() };
            statuses.push(DescriptorStatus {
                code: if *count > self.limit { Code::OverLimit } else { Code::Ok } as i32,
                current_limit: Some(limit),
                limit_remaining: self.limit.saturating_sub(*count),
                duration_until_reset: Some(Duration { seconds: 60, nanos: 0 }),
                ..Default::default()
            });
        }
        let over = statuses.iter().any(|status| status.code == Code::OverLimit as i32);
        let overall_code = if over { Code::OverLimit } else { Code::Ok } as i32;
        Ok(tonic::Response::new(RateLimitResponse { overall_code, statuses, ..Default::default() }))
    }
}
