//! The requests that write the Service or an EndpointSlice of a Gateway.
//!
//! An existing object is read and then changed by a merge patch with its resourceVersion, because other writers have fields in it. A
//! server-side apply would also change an object that another owner has created in the meantime.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Preconditions;
use lockgate_route::objects::{Kind, ObjectId};
use serde_json::Value;

use super::content::{DesiredObject, DesiredSlice, MANAGED_BY};
use crate::status::failure::Failure;
use crate::status::plan::Performed;
use crate::status::sender::{Form, Sender};

/// The verb of a write that changed an object.
pub const CHANGED: &str = "changed";

/// Creates, changes, or deletes an object.
pub async fn perform(
    sender: Sender,
    id: ObjectId,
    goal: Option<DesiredObject>,
    exists: bool,
) -> Result<Performed, Failure> {
    let requests = Requests { sender: &sender, id: &id };
    match goal {
        Some(content) if !exists => requests.write("created", Form::Create(content.object())).await,
        Some(DesiredObject::Service(service)) => {
            let is: core::Service = sender.read(&id).await?;
            requests.change(service.owns(&is), service.patch(&is, &sender.manager)).await
        }
        Some(DesiredObject::Slice(slice)) => {
            let is: discovery::EndpointSlice = sender.read(&id).await?;
            requests.change(DesiredSlice::owns(&is), slice.patch(&is)).await
        }
        None if id.kind == Kind::SERVICE => {
            let is: core::Service = sender.read(&id).await?;
            let label = is.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0));
            let is_managed = label.is_some_and(|value| value == MANAGED_BY.1);
            let owners = is.metadata.owner_references.as_deref().unwrap_or_default();
            let is_owned = owners.iter().any(|owner| owner.kind == Kind::GATEWAY.as_str());
            requests.delete(is_managed && is_owned, is.metadata).await
        }
        None => {
            let is: discovery::EndpointSlice = sender.read(&id).await?;
            requests.delete(DesiredSlice::owns(&is), is.metadata).await
        }
    }
}

/// The requests about one object.
struct Requests<'a> {
    sender: &'a Sender,
    id: &'a ObjectId,
}

impl Requests<'_> {
    async fn write(&self, verb: &'static str, form: Form) -> Result<Performed, Failure> {
        self.sender.send(self.id, form).await?;
        Ok(Performed::Written(verb))
    }

    async fn change(&self, is_ours: bool, patch: Option<Value>) -> Result<Performed, Failure> {
        match patch {
            _ if !is_ours => Err(Failure::Foreign),
            None => Ok(Performed::Unchanged),
            Some(patch) => self.write(CHANGED, Form::Merge(patch)).await,
        }
    }

    /// Deletes the object if it is ours and has not changed since the read.
    async fn delete(&self, is_ours: bool, is: ObjectMeta) -> Result<Performed, Failure> {
        if !is_ours {
            return Err(Failure::Foreign);
        }
        let preconditions = Preconditions { resource_version: is.resource_version, uid: is.uid };
        self.write("deleted", Form::Delete(preconditions)).await
    }
}
