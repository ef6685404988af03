//! The flags of commands that read a Kubernetes cluster like kubectl.

use std::path::PathBuf;

use clap::Args;

// The struct has no docstring, because clap would use it as the description of the command.

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArgs {
    /// The kubeconfig of the Kubernetes cluster [default: as for kubectl]
    #[arg(long, value_name = "FILE", help_heading = "Kubernetes cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; `current`: its current context
    #[arg(
        long,
        visible_alias = "cluster",
        alias = "against",
        value_name = "CONTEXT",
        help_heading = "Kubernetes cluster"
    )]
    pub context: Option<String>,
}

impl ClusterArgs {
    /// Returns whether any of the flags is given.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }
}
