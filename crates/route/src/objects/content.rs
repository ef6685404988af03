//! One object of any kind.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::kind::{Grouping, Kind};
use super::meta::{Meta, ObjectId};
use super::service::EndpointSlice;
use crate::model::ObjectKey;

/// The content of an object of one kind, reduced to the fields that the translation or the status writers read.
pub trait Content: Any + Debug + Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> Kind;

    /// Returns the metadata.
    fn meta(&self) -> &Meta;

    /// Returns an object with the same content and this metadata.
    fn with_meta(&self, meta: Meta) -> Object;

    /// Returns whether `other` is the same in every field.
    fn is_same(&self, other: &dyn Any) -> bool;

    /// Returns whether `other` is the same in every field that the translation reads.
    fn is_same_to_translation(&self, other: &dyn Any) -> bool {
        self.is_same(other)
    }
}

/// A type that represents all objects of one kind. It implements [`Content`].
pub trait Typed: Any + Clone + Debug + PartialEq + Send + Sync {
    /// The kind.
    const KIND: Kind;

    /// Returns the metadata.
    fn metadata(&self) -> &Meta;

    /// Returns the metadata for a change.
    fn metadata_mut(&mut self) -> &mut Meta;

    /// Returns whether `other` is the same in every field that the translation reads.
    fn equals_for_translation(&self, other: &Self) -> bool {
        self == other
    }
}

impl<T: Typed> Content for T {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn meta(&self) -> &Meta {
        self.metadata()
    }

    fn with_meta(&self, meta: Meta) -> Object {
        let mut content = self.clone();
        *content.metadata_mut() = meta;
        Object::new(content)
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn is_same_to_translation(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| self.equals_for_translation(other))
    }
}

/// One object of any kind. A clone is cheap.
#[derive(Clone)]
pub struct Object(Arc<dyn Content>);

impl Object {
    /// Creates an object with this content.
    pub fn new(content: impl Content) -> Self {
        Self(Arc::new(content))
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// Returns the metadata.
    pub fn meta(&self) -> &Meta {
        self.0.meta()
    }

    /// Returns the kind and the key.
    pub fn id(&self) -> ObjectId {
        ObjectId { kind: self.kind(), key: self.meta().key.clone() }
    }

    /// Returns the key of the group that the object belongs to, for kinds that are read by group ([`Grouping`]).
    pub fn group(&self) -> Option<ObjectKey> {
        match self.kind().info().grouping {
            Grouping::Alone => None,
            Grouping::ByService => self.get().map(EndpointSlice::service_key),
            Grouping::ByNamespace => Some(ObjectKey { namespace: "".into(), name: self.meta().key.namespace.clone() }),
        }
    }

    /// Returns a reference to the object.
    pub fn object_ref(&self) -> ObjectRef {
        self.meta().object_ref(self.kind())
    }

    /// Returns the content if it has this type.
    pub fn get<T: Content>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns a copy with `change` applied to the content if it has this type; otherwise returns the object unchanged.
    pub fn with<T: Content + Clone>(self, change: impl FnOnce(&mut T)) -> Self {
        let Some(mut content) = self.get::<T>().cloned() else { return self };
        change(&mut content);
        Self::new(content)
    }

    /// Returns a copy with changed metadata.
    pub fn with_meta(&self, change: impl FnOnce(&mut Meta)) -> Self {
        let mut meta = self.meta().clone();
        change(&mut meta);
        self.0.with_meta(meta)
    }

    /// Returns whether `other` is the same in every field that the translation reads.
    pub fn is_same_to_translation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same_to_translation(&*other.0)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same(&*other.0)
    }
}

impl Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
