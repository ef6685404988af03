//! The flags of commands that send requests to running controllers.

use clap::Args;

use super::cluster_args::ClusterArgs;
use super::values;

// The struct has no docstring, because clap would use it as the description of the command.

#[allow(missing_docs)]
#[derive(Debug, Clone, Args)]
pub struct ReplicaArgs {
    /// Ask the controller at this admin address; may be given several times, for several replicas
    #[arg(long, value_name = "HOST:PORT", value_parser = values::host_and_port, help_heading = "Source (default: the cluster of kubectl)")]
    #[arg(conflicts_with_all = ["kubeconfig", "context", "namespace", "selector"])]
    pub admin_address: Vec<String>,

    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// The namespace of the controller
    #[arg(long, short = 'n', value_name = "NAME", default_value = "lockgate", help_heading = "Kubernetes cluster")]
    pub namespace: String,

    /// The labels of the controller's pods
    #[arg(long, short = 'l', value_name = "LABELS", help_heading = "Kubernetes cluster")]
    #[arg(default_value = "app.kubernetes.io/name=lockgate,app.kubernetes.io/component=controller")]
    pub selector: String,
}
