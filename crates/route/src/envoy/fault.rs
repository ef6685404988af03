//! Faults that Envoy injects: delayed and aborted requests.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3 as common_v3;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3 as fault_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;

use super::{delegate, wire};
use crate::model::{Faults, Share};

/// The maximum number of requests that an Envoy delays at once. Beyond it, Envoy injects no faults.
const MOST_ACTIVE: u32 = 1000;

/// Builds the filter of a route. It waits if there is a delay. No header of a client controls it.
pub fn of_route(faults: &Faults) -> core_v3::TypedExtensionConfig {
    use common_v3::fault_delay::FaultDelaySecifier::FixedDelay;
    use fault_v3::fault_abort::ErrorType::HttpStatus;
    let delay = |(delay, share): (Duration, Share)| common_v3::FaultDelay {
        fault_delay_secifier: Some(FixedDelay(wire::duration(delay))),
        percentage: percentage(share),
    };
    let abort = |(status, share): (u16, Share)| fault_v3::FaultAbort {
        error_type: Some(HttpStatus(status.into())),
        percentage: percentage(share),
        ..Default::default()
    };
    let fault = fault_v3::HttpFault {
        delay: faults.delay.map(delay),
        abort: faults.abort.map(abort),
        max_active_faults: Some(wire::uint32(MOST_ACTIVE)),
        // Otherwise a header of the request would create statistics.
        disable_downstream_cluster_stats: true,
        ..Default::default()
    };
    delegate::part("envoy.filters.http.fault", &fault)
}

fn percentage(share: Share) -> Option<type_v3::FractionalPercent> {
    wire::fraction(share).default_value
}
