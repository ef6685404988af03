//! One object of any kind.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::{EndpointSlice, Ingress, IngressClass, Kind, Meta, Misencoded, Namespace, Secret, Service};

/// The content of an object of one kind, reduced to the fields that the translation or the status writers read.
pub trait Content: Any + Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// The metadata.
    fn meta(&self) -> &Meta;

    /// Whether `other` is the same in every field.
    fn is_same(&self, other: &dyn Any) -> bool;

    /// Whether `other` is the same in every field that the translation reads.
    fn is_same_to_translation(&self, other: &dyn Any) -> bool {
        self.is_same(other)
    }
}

/// A type whose values are the contents of all objects of one kind.
pub trait Typed: Content + Clone {
    /// The kind.
    const KIND: Kind;
}

/// One object of any kind. Cheap to clone.
#[derive(Clone)]
pub struct Object(Arc<dyn Content>);

impl Object {
    /// An object with this content.
    pub fn new(content: impl Content) -> Self {
        Self(Arc::new(content))
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// The metadata.
    pub fn meta(&self) -> &Meta {
        self.0.meta()
    }

    /// A reference to the object.
    pub fn object_ref(&self) -> ObjectRef {
        self.meta().object_ref(self.kind())
    }

    /// The content, if it is of this type.
    pub fn get<T: Content>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// A copy with `change` applied to the content, if that is of this type; otherwise the object as it is.
    pub fn with<T: Content + Clone>(self, change: impl FnOnce(&mut T)) -> Self {
        let Some(mut content) = self.get::<T>().cloned() else { return self };
        change(&mut content);
        Self::new(content)
    }

    /// Whether `other` is the same in every field that the translation reads.
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

/// Implements [`Content`] and [`Typed`] for a type with a field `meta` whose values are compared as a whole.
#[macro_export]
macro_rules! content {
    ($type:ty, $kind:expr) => {
        impl $crate::objects::Content for $type {
            fn kind(&self) -> $crate::objects::Kind {
                $kind
            }

            fn meta(&self) -> &$crate::objects::Meta {
                &self.meta
            }

            fn is_same(&self, other: &dyn std::any::Any) -> bool {
                other.downcast_ref() == Some(self)
            }
        }

        impl $crate::objects::Typed for $type {
            const KIND: $crate::objects::Kind = $kind;
        }
    };
}

content!(IngressClass, Kind::INGRESS_CLASS);
content!(Service, Kind::SERVICE);
content!(EndpointSlice, Kind::ENDPOINT_SLICE);
content!(Secret, Kind::SECRET);
content!(Namespace, Kind::NAMESPACE);

impl Content for Ingress {
    fn kind(&self) -> Kind {
        Kind::INGRESS
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn is_same_to_translation(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|Self { meta, spec, status: _ }| *meta == self.meta && *spec == self.spec)
    }
}

impl Typed for Ingress {
    const KIND: Kind = Kind::INGRESS;
}

impl Content for Misencoded {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}
