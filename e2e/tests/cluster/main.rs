//! Specs in a Kubernetes cluster: `make e2e T=cluster`, and `FILTER=` for some of them. Those that wait for each other or
//! stop what others need say so by [`e2e::Lab::alone`]; all others run side by side.

mod audit;
mod broken;
mod certificates;
mod conformance;
mod documentation;
mod explain;
mod families;
mod first;
mod fleets;
mod helm;
mod hostile;
mod lab;
mod rbac;
mod ways_in;
mod zero_downtime;
