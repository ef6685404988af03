//! The requests of the writers to the API server.
//!
//! Objects that belong to Lockgate alone are written by server-side apply. A merge patch with a resourceVersion writes objects that
//! have fields of other writers: it changes no other field, and fails if the object has changed since it was observed.

use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use lockgate_route::objects::ObjectId;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

/// The form of a write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// Creates the object, unless it exists.
    Create(Value),
    /// Applies the fields of the object, which then belong to this field manager. `None`: the field manager of the installation.
    Apply(Value, Option<&'static str>),
    /// Changes some fields of the object.
    Merge(Value),
    /// Changes some fields of the status, at a resourceVersion.
    MergeStatus(Value),
    /// Deletes the object.
    Delete(Preconditions),
}

/// The connection of a writer to the API server.
#[derive(Clone)]
pub(super) struct Sender {
    pub client: kube::Client,
    /// The field manager of this installation.
    pub manager: String,
}

impl Sender {
    /// Sends a write of an object.
    pub async fn send(&self, id: &ObjectId, form: Form) -> kube::Result<()> {
        self.client.request::<IgnoredAny>(request(id, &self.manager, form)?).await.map(drop)
    }

    /// Reads an object by an empty patch, which changes nothing and needs no additional permission.
    pub async fn read<T: DeserializeOwned>(&self, id: &ObjectId) -> kube::Result<T> {
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let request = path(id).patch(&id.key.name, &params, &Patch::Merge(json!({})));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Reads an object.
    pub async fn get(&self, id: &ObjectId) -> kube::Result<Value> {
        let request = path(id).get(&id.key.name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}

/// Returns the collection of an object.
fn path(id: &ObjectId) -> Request {
    Request::new(id.kind.path(id.kind.info().namespaced.then_some(&*id.key.namespace)))
}

/// Returns the request of a write.
pub(super) fn request(id: &ObjectId, manager: &str, form: Form) -> kube::Result<http::Request<Vec<u8>>> {
    let (path, name, manager) = (path(id), &*id.key.name, manager.to_owned());
    let patch = |manager| PatchParams { field_manager: Some(manager), ..PatchParams::default() };
    let request = match form {
        Form::Create(object) => {
            let params = PostParams { field_manager: Some(manager), ..PostParams::default() };
            path.create(&params, serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?)
        }
        Form::Apply(object, other) => {
            let params = patch(other.map_or(manager, str::to_owned)).force();
            path.patch_metadata(name, &params, &Patch::Apply(object))
        }
        Form::Merge(fields) => path.patch_metadata(name, &patch(manager), &Patch::Merge(fields)),
        Form::MergeStatus(fields) => path.patch_subresource("status", name, &patch(manager), &Patch::Merge(fields)),
        Form::Delete(preconditions) => {
            path.delete(name, &DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() })
        }
    };
    request.map_err(kube::Error::BuildRequest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use lockgate_route::objects::Kind;

    use super::*;

    /// Returns the method, the path, the query, and the body of a request about a Service.
    fn sent(form: Form) -> (String, String, String, Value) {
        let request = request(&ObjectId::new(Kind::SERVICE, "shop", "cart"), "us", form).unwrap();
        let uri = request.uri();
        let body = serde_json::from_slice(request.body()).unwrap();
        (request.method().to_string(), uri.path().to_owned(), uri.query().unwrap_or_default().to_owned(), body)
    }

    #[test]
    fn each_form_is_one_request() {
        let (all, one) = ("/api/v1/namespaces/shop/services", "/api/v1/namespaces/shop/services/cart");
        let object = json!({ "spec": {} });
        let (method, path, query, body) = sent(Form::Create(object.clone()));
        assert_eq!((&*method, &*path, &body), ("POST", all, &object));
        assert!(query.contains("fieldManager=us"));
        let (method, path, query, body) = sent(Form::Apply(object.clone(), None));
        assert_eq!((&*method, &*path, &body), ("PATCH", one, &object));
        assert!(query.contains("fieldManager=us") && query.contains("force=true"));
        assert!(sent(Form::Apply(object.clone(), Some("other"))).2.contains("fieldManager=other"));
        let (_, path, query, _) = sent(Form::Merge(object.clone()));
        assert!(path == one && !query.contains("force"));
        assert_eq!(sent(Form::MergeStatus(object)).1, format!("{one}/status"));
        let preconditions = Preconditions { resource_version: Some("7".into()), uid: None };
        let (method, path, _, body) = sent(Form::Delete(preconditions));
        assert_eq!((&*method, &*path, &body["preconditions"]["resourceVersion"]), ("DELETE", one, &json!("7")));
    }
}
