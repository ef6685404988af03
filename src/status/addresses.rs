//! The addresses of the Envoys, from the settings or from the Service in front of the Envoys.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::watch_object;
use lockgate_route::objects::Kind;
use tokio::sync::watch;

use super::kind::LoadBalancerAddress;
use super::settings::WriterSettings;
use crate::channel::{changed, send_if_changed};
use crate::source::cluster::describe;
use crate::source::cluster::retry::{ShortBackoff, is_expired};

/// Updates `addresses` according to `settings`, forever. While the Service has no address or does not exist, the last
/// addresses stay: an empty status would not help clients that still use them.
pub(super) async fn follow(
    client: kube::Client,
    mut settings: watch::Receiver<WriterSettings>,
    addresses: watch::Sender<Arc<[LoadBalancerAddress]>>,
) {
    loop {
        let WriterSettings { status, envoy_service, .. } = settings.borrow_and_update().clone();
        let service = envoy_service.filter(|_| status.addresses.is_empty());
        match service {
            Some((namespace, name)) => {
                let follow = follow_service(client.clone(), &namespace, &name, &addresses);
                tokio::select! {
                    () = follow => {}
                    () = changed(&mut settings) => {}
                }
            }
            None => {
                set(&addresses, status.addresses.iter().map(|text| address(text)).collect());
                changed(&mut settings).await;
            }
        }
    }
}

async fn follow_service(
    client: kube::Client,
    namespace: &str,
    name: &str,
    addresses: &watch::Sender<Arc<[LoadBalancerAddress]>>,
) {
    let mut service = watch_object(Api::<Service>::namespaced(client, namespace), name).boxed();
    let mut backoff = ShortBackoff::default();
    let (mut missing, mut expired) = (false, false);
    while let Some(seen) = service.next().await {
        match seen {
            Ok(seen) => {
                backoff.reset();
                expired = false;
                let found = seen.as_ref().map(of_service).unwrap_or_default();
                if !found.is_empty() {
                    set(addresses, found);
                    missing = false;
                } else if !std::mem::replace(&mut missing, true) {
                    let why = if seen.is_some() { "has no load balancer yet" } else { "does not exist" };
                    tracing::warn!(kind = "Service", namespace, name, "{why}: no status is written without an address");
                }
            }
            // The stream starts with a new list.
            Err(error) if is_expired(&error) && !std::mem::replace(&mut expired, true) => {}
            Err(error) => {
                let wait = backoff.next().unwrap_or(Duration::from_secs(30));
                let retry = wait.as_secs_f64();
                let message = describe(Kind::SERVICE, &error);
                tracing::warn!(kind = "Service", namespace, name, "{message}; retrying in {retry:.1} s");
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// Returns the addresses in the status of a Service, without its ports, which belong to the Service alone.
fn of_service(service: &Service) -> Vec<LoadBalancerAddress> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    let address = |ingress: &k8s_openapi::api::core::v1::LoadBalancerIngress| LoadBalancerAddress {
        ip: ingress.ip.clone().filter(|ip| !ip.is_empty()),
        hostname: ingress.hostname.clone().filter(|hostname| !hostname.is_empty()),
        ports: None,
    };
    ingress.map(address).filter(|address| address.ip.is_some() || address.hostname.is_some()).collect()
}

/// Parses an IP address or a host name.
fn address(text: &str) -> LoadBalancerAddress {
    match text.parse::<IpAddr>() {
        Ok(ip) => LoadBalancerAddress { ip: Some(ip.to_string()), ..LoadBalancerAddress::default() },
        Err(_) => LoadBalancerAddress { hostname: Some(text.to_owned()), ..LoadBalancerAddress::default() },
    }
}

fn set(addresses: &watch::Sender<Arc<[LoadBalancerAddress]>>, found: Vec<LoadBalancerAddress>) {
    if send_if_changed(addresses, found.into()) {
        tracing::info!(addresses = super::ingress::list(&addresses.borrow()), "addresses for the status of Ingresses");
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, PortStatus, ServiceStatus};

    use super::*;

    #[test]
    fn an_address_is_an_ip_or_a_host_name() {
        assert_eq!(address("192.0.2.1").ip.as_deref(), Some("192.0.2.1"));
        assert_eq!(address("2001:DB8:0::1").ip.as_deref(), Some("2001:db8::1"));
        assert_eq!(address("lb.example.com").hostname.as_deref(), Some("lb.example.com"));
    }

    #[test]
    fn of_a_service_all_addresses_are_taken_and_no_ports() {
        let ingress = |ip: &str, hostname: &str| LoadBalancerIngress {
            ip: Some(ip.into()),
            hostname: Some(hostname.into()),
            ports: Some(vec![PortStatus::default()]),
            ..LoadBalancerIngress::default()
        };
        let ingress = Some(vec![ingress("192.0.2.1", ""), ingress("", "lb.example.com"), ingress("", "")]);
        let load_balancer = Some(LoadBalancerStatus { ingress });
        let status = Some(ServiceStatus { load_balancer, ..ServiceStatus::default() });
        let found = of_service(&Service { status, ..Service::default() });
        assert_eq!(found, [address("192.0.2.1"), address("lb.example.com")]);
        assert!(of_service(&Service::default()).is_empty());
    }
}
