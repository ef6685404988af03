//! The configurations of Contour in a Kubernetes cluster.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::json;

use crate::cmd::progress::Progress;
use crate::source::cluster::reason;

/// The status of an API server without the resource type.
const NOT_FOUND: u16 = 404;

/// Returns the ConfigMaps with the name of Contour's and the ContourConfigurations of all namespaces, as JSON. Standard error reports what
/// cannot be listed.
pub async fn list(client: &kube::Client, progress: &Progress) -> Vec<String> {
    progress.step("reading the configuration of Contour");
    let config_map = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let configuration = GroupVersionKind::gvk("projectcontour.io", "v1alpha1", "ContourConfiguration");
    let named = ListParams::default().fields("metadata.name=contour");
    let mut texts = Vec::new();
    for (kind, parameters) in [(config_map, named), (configuration, ListParams::default())] {
        let api = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        match api.list(&parameters).await {
            // The items of a list have no kind.
            Ok(list) => texts.extend(list.items.into_iter().map(|object| {
                let DynamicObject { metadata, data, .. } = object;
                let mut text = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata });
                let fields = [("data", data.get("data")), ("spec", data.get("spec"))];
                fields.into_iter().filter_map(|(name, value)| Some((name, value?))).for_each(|(name, value)| {
                    text[name] = value.clone();
                });
                text.to_string()
            })),
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {}
            Err(error) => progress.note(&format!(
                "cannot list the {}s: {}; --contour-config FILE names the configuration of Contour",
                kind.kind,
                reason(&error)
            )),
        }
    }
    texts
}
