//! The parts of a descriptor set that JSON needs. Source: `google/protobuf/descriptor.proto` and `google/api/annotations.proto`.
//!
//! All other parts are dropped when a set is read, such as comments and options.

use std::collections::HashMap;

/// The label of a field with one value.
pub const OPTIONAL: i32 = 1;
/// The label of a field with any number of values.
pub const REPEATED: i32 = 3;
/// The type of a field that is a string.
pub const STRING: i32 = 9;
/// The type of a field that is a group, a form of proto2.
pub const GROUP: i32 = 10;
/// The type of a field that is a message.
pub const MESSAGE: i32 = 11;
/// The type of a field that is an enum.
pub const ENUM: i32 = 14;

/// The files of a set, with their imports.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DescriptorSet {
    #[prost(message, repeated, tag = "1")]
    pub file: Vec<FileDescriptor>,
}

/// A file with definitions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FileDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub package: Option<String>,
    #[prost(string, repeated, tag = "3")]
    pub dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub message_type: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "5")]
    pub enum_type: Vec<EnumDescriptor>,
    #[prost(message, repeated, tag = "6")]
    pub service: Vec<ServiceDescriptor>,
    #[prost(string, optional, tag = "12")]
    pub syntax: Option<String>,
}

/// The type of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MessageDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub field: Vec<FieldDescriptor>,
    #[prost(message, repeated, tag = "3")]
    pub nested_type: Vec<Self>,
    #[prost(message, repeated, tag = "4")]
    pub enum_type: Vec<EnumDescriptor>,
    #[prost(message, optional, tag = "7")]
    pub options: Option<MessageOptions>,
}

/// The options of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MessageOptions {
    #[prost(bool, optional, tag = "7")]
    pub map_entry: Option<bool>,
}

/// A field of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FieldDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub number: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub label: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub r#type: Option<i32>,
    /// The name of the type of a message or an enum, with a period before the package.
    #[prost(string, optional, tag = "6")]
    pub type_name: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub json_name: Option<String>,
}

/// The type of an enum.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EnumDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub value: Vec<EnumValueDescriptor>,
}

/// A value of an enum.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EnumValueDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub number: Option<i32>,
}

/// A service.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServiceDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub method: Vec<MethodDescriptor>,
}

/// A method of a service.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MethodDescriptor {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub input_type: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub output_type: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub options: Option<MethodOptions>,
    #[prost(bool, optional, tag = "5")]
    pub client_streaming: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub server_streaming: Option<bool>,
}

/// The options of a method.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MethodOptions {
    /// The extension `google.api.http`.
    #[prost(message, optional, tag = "72295728")]
    pub http: Option<HttpRule>,
}

/// The requests that call a method.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpRule {
    #[prost(string, optional, tag = "2")]
    pub get: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub put: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub post: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub delete: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub patch: Option<String>,
    /// The field of the body. `*`: all fields. Empty: there is no body.
    #[prost(string, optional, tag = "7")]
    pub body: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub custom: Option<CustomMethod>,
    #[prost(message, repeated, tag = "11")]
    pub additional_bindings: Vec<Self>,
    #[prost(string, optional, tag = "12")]
    pub response_body: Option<String>,
}

/// A method of HTTP with another name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CustomMethod {
    #[prost(string, optional, tag = "1")]
    pub kind: Option<String>,
}

/// The types of a set by their full name, such as `.shop.v1.Book`.
#[derive(Debug, Default)]
pub struct DescribedTypes<'s> {
    pub messages: HashMap<String, &'s MessageDescriptor>,
    pub enums: HashMap<String, &'s EnumDescriptor>,
}

impl<'s> DescribedTypes<'s> {
    /// Returns the types of the files.
    pub fn of(set: &'s DescriptorSet) -> Self {
        let mut types = Self::default();
        for file in &set.file {
            let scope = match file.package() {
                "" => String::new(),
                package => format!(".{package}"),
            };
            types.add(&scope, &file.message_type, &file.enum_type);
        }
        types
    }

    fn add(&mut self, scope: &str, messages: &'s [MessageDescriptor], enums: &'s [EnumDescriptor]) {
        self.enums.extend(enums.iter().map(|one| (format!("{scope}.{}", one.name()), one)));
        for message in messages {
            let name = format!("{scope}.{}", message.name());
            self.add(&name, &message.nested_type, &message.enum_type);
            self.messages.insert(name, message);
        }
    }
}
