//! Specs in a Kubernetes cluster: `make e2e T=cluster`, with `FILTER=` for a selection. Specs that affect others run
//! alone ([`e2e::Lab::alone`]). All others run in parallel.

mod audit;
mod broken;
mod certificates;
mod conformance;
mod contour_swap;
mod documentation;
mod explain;
mod families;
mod first;
mod fleets;
mod helm;
mod hostile;
mod http_proxies;
mod lab;
mod platforms;
mod rbac;
mod reader;
mod ways_in;
mod zero_downtime;
mod zones;
