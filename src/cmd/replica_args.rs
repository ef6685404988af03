//! The flags of commands that send requests to running controllers.

use std::path::PathBuf;

use clap::Args;

// The struct has no docstring, because clap would use it as the description of the command.

#[allow(missing_docs)]
#[derive(Debug, Clone, Args)]
pub struct ReplicaArgs {
    /// Ask the controller at this admin address; may be given several times, for several replicas
    #[arg(long, value_name = "HOST:PORT", help_heading = "Source (default: the cluster of kubectl)")]
    #[arg(conflicts_with_all = ["kubeconfig", "context", "namespace", "selector"])]
    pub admin_address: Vec<String>,

    /// The kubeconfig of the cluster [default: as for kubectl]
    #[arg(long, value_name = "FILE", help_heading = "Source (default: the cluster of kubectl)")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", help_heading = "Source (default: the cluster of kubectl)")]
    pub context: Option<String>,

    /// The namespace of the controller
    #[arg(long, short = 'n', value_name = "NAME", default_value = "lockgate")]
    #[arg(help_heading = "Source (default: the cluster of kubectl)")]
    pub namespace: String,

    /// The labels of the controller's pods
    #[arg(long, short = 'l', value_name = "LABELS", help_heading = "Source (default: the cluster of kubectl)")]
    #[arg(default_value = "app.kubernetes.io/name=lockgate,app.kubernetes.io/component=controller")]
    pub selector: String,
}
