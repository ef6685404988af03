//! Compiles the descriptors of all Envoy messages from the `.proto` files in the envoy-types crate.
//!
//! It writes one `FileDescriptorSet` with the extension options (validation rules, sensitive fields) to
//! `$OUT_DIR/descriptors.bin`, in import order, and the table of all message types to `$OUT_DIR/types.rs`.

#[path = "build/types.rs"]
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use protox::file::{File, FileResolver, GoogleFileResolver};

/// The directories of `.proto` files in envoy-types, below its `proto`.
const INCLUDES: &[&str] = &[
    "data-plane-api",
    "googleapis",
    "protoc-gen-validate",
    "xds",
    "cel-spec/proto",
    "client_model",
    "opentelemetry-proto",
    "ratelimit",
];

/// The directory of `.proto` files that envoy-types lacks.
const OWN: &str = "../../proto";

/// Protobuf's own files, which the compiler contains.
const WELL_KNOWN: &[&str] =
    &["any", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"];

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let protos = envoy_types()?.join("proto");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/types.rs");
    println!("cargo:rerun-if-changed={}", protos.display());
    println!("cargo:rerun-if-changed={OWN}");
    // The directory of this crate comes last: of two files with the same name, that of envoy-types is used.
    let includes = INCLUDES.iter().map(|include| protos.join(include)).chain([PathBuf::from(OWN)]);
    let descriptors = compile(&includes.collect::<Vec<_>>())?;
    for (name, content) in [("types.rs", types::source(&descriptors)?.into_bytes()), ("descriptors.bin", descriptors)] {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the directory of envoy-types' sources, from `cargo metadata` of the built project, or else from Cargo's
/// registry directory.
fn envoy_types() -> Result<PathBuf> {
    let project = project()?;
    println!("cargo:rerun-if-changed={}", project.join("Cargo.lock").display());
    let mut cargo = Command::new(env::var_os("CARGO").context("CARGO is not set")?);
    cargo.current_dir(&project).args(["metadata", "--format-version=1", "--offline", "--locked"]);
    if let Some(target) = env::var_os("TARGET") {
        // Without it, the crates of every other platform would have to be there too.
        cargo.arg("--filter-platform").arg(target);
    }
    let output = cargo.output().context("cannot run cargo metadata")?;
    if let Some(directory) = directory_in(&String::from_utf8_lossy(&output.stdout)) {
        return Ok(directory);
    }
    unpacked(&project)?.with_context(|| {
        format!("cannot find the sources of envoy-types: {}", String::from_utf8_lossy(&output.stderr).trim())
    })
}

/// Returns the directory with the Cargo.lock of the built project, which need not be this crate's workspace.
///
/// Cargo does not pass it to build scripts. By default, the output directory is below that project. Otherwise, this
/// crate's workspace is used.
fn project() -> Result<PathBuf> {
    let directories = ["OUT_DIR", "CARGO_MANIFEST_DIR"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let mut above = directories.flat_map(|directory| directory.ancestors().map(Path::to_owned).collect::<Vec<_>>());
    above.find(|directory| directory.join("Cargo.lock").is_file()).context("there is no Cargo.lock")
}

/// Finds the directory of envoy-types in the output of `cargo metadata`. Only the package itself has name and version
/// next to each other, followed by the path of its manifest.
fn directory_in(metadata: &str) -> Option<PathBuf> {
    let (_, package) = metadata.split_once(r#"{"name":"envoy-types","version":"#)?;
    let (_, path) = package.split_once(r#""manifest_path":""#)?;
    let (path, _) = path.split_once('"')?;
    Some(Path::new(&path.replace(r"\\", r"\")).parent()?.to_owned())
}

/// Finds the directory of envoy-types in Cargo's registry, in the version that the Cargo.lock of `project` names.
fn unpacked(project: &Path) -> Result<Option<PathBuf>> {
    let lock = fs::read_to_string(project.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let version = lock
        .split_once("name = \"envoy-types\"\nversion = \"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(version, _)| version)
        .context("envoy-types is not in Cargo.lock")?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let Some(registries) = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok()) else {
        return Ok(None);
    };
    let mut found: Vec<_> =
        registries.flatten().map(|registry| registry.path().join(format!("envoy-types-{version}"))).collect();
    found.sort();
    Ok(found.into_iter().find(|directory| directory.join("proto").is_dir()))
}

/// Compiles all `.proto` files in `includes` to one encoded `FileDescriptorSet`.
fn compile(includes: &[PathBuf]) -> Result<Vec<u8>> {
    let mut files = Files::default();
    for name in WELL_KNOWN {
        files.insert(GoogleFileResolver::new().open_file(&format!("google/protobuf/{name}.proto"))?);
    }
    for include in includes {
        files.read(include, include)?;
    }
    let mut pool = DescriptorPool::new();
    for name in files.parsed.keys() {
        files.add(name, &mut pool)?;
    }
    Ok(pool.encode_to_vec())
}

/// Parsed files by import name.
#[derive(Default)]
struct Files {
    parsed: BTreeMap<String, Parsed>,
}

struct Parsed {
    file: FileDescriptorProto,
    /// The full names of its messages and enums.
    types: BTreeSet<String>,
}

impl Files {
    /// Parses every `.proto` file under `directory`.
    fn read(&mut self, include: &Path, directory: &Path) -> Result<()> {
        let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                self.read(include, &path)?;
            } else if path.extension().is_some_and(|extension| extension == "proto") {
                let name = path.strip_prefix(include)?.to_string_lossy().replace('\\', "/");
                let source = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let file = File::from_source(&name, &source).with_context(|| format!("cannot parse {name}"))?;
                self.insert(file);
            }
        }
        Ok(())
    }

    fn insert(&mut self, file: File) {
        let file = FileDescriptorProto { source_code_info: None, ..file.file_descriptor_proto().clone() };
        let mut types = BTreeSet::new();
        collect(file.package(), &file.message_type, &file.enum_type, &mut types);
        self.parsed.entry(file.name().to_owned()).or_insert(Parsed { file, types });
    }

    fn get(&self, name: &str) -> Result<&Parsed> {
        self.parsed.get(name).with_context(|| format!("cannot find the import {name}"))
    }

    /// Adds the file `name` to `pool`, after those that it imports.
    fn add(&self, name: &str, pool: &mut DescriptorPool) -> Result<()> {
        if pool.get_file_by_name(name).is_some() {
            return Ok(());
        }
        let parsed = self.get(name)?;
        for import in &parsed.file.dependency {
            self.add(import, pool).with_context(|| format!("imported by {name}"))?;
        }
        let mut visible = vec![&parsed.types];
        for import in &parsed.file.dependency {
            self.exported(import, &mut visible)?;
        }
        let file = Scope { visible }.file(parsed.file.clone());
        pool.add_file_descriptor_proto(file).with_context(|| format!("cannot compile {name}"))
    }

    /// Returns the types that an import of `name` provides.
    fn exported<'a>(&'a self, name: &str, visible: &mut Vec<&'a BTreeSet<String>>) -> Result<()> {
        let parsed = self.get(name)?;
        visible.push(&parsed.types);
        for &public in &parsed.file.public_dependency {
            if let Some(import) = parsed.file.dependency.get(public as usize) {
                self.exported(import, visible)?;
            }
        }
        Ok(())
    }
}

/// Adds the full names of all types in `scope` to `types`.
fn collect(scope: &str, messages: &[DescriptorProto], enums: &[EnumDescriptorProto], types: &mut BTreeSet<String>) {
    types.extend(enums.iter().map(|one| format!("{scope}.{}", one.name())));
    for message in messages {
        let name = format!("{scope}.{}", message.name());
        collect(&name, &message.nested_type, &message.enum_type, types);
        types.insert(name);
    }
}

/// The scope of a file, which makes its type names absolute before all files are merged.
///
/// In the protobuf language, only imported files count: `common.v3.A` in the package `x.y` is never hidden by a package
/// `x.common` of a file that is not imported. In one pool of all files, it would be.
struct Scope<'a> {
    visible: Vec<&'a BTreeSet<String>>,
}

impl Scope<'_> {
    fn file(&self, mut file: FileDescriptorProto) -> FileDescriptorProto {
        let package = file.package().to_owned();
        file.message_type.iter_mut().for_each(|message| self.message(&package, message));
        file.extension.iter_mut().for_each(|field| self.field(&package, field));
        for method in file.service.iter_mut().flat_map(|service| &mut service.method) {
            self.resolve(&package, &mut method.input_type);
            self.resolve(&package, &mut method.output_type);
        }
        file
    }

    fn message(&self, scope: &str, message: &mut DescriptorProto) {
        let scope = format!("{scope}.{}", message.name());
        message.field.iter_mut().chain(&mut message.extension).for_each(|field| self.field(&scope, field));
        message.nested_type.iter_mut().for_each(|nested| self.message(&scope, nested));
    }

    fn field(&self, scope: &str, field: &mut FieldDescriptorProto) {
        self.resolve(scope, &mut field.type_name);
        self.resolve(scope, &mut field.extendee);
    }

    /// Makes `name` absolute; the innermost scope takes precedence. An unknown name stays, and the pool reports it.
    fn resolve(&self, scope: &str, name: &mut Option<String>) {
        let Some(relative) = name.as_deref().filter(|name| !name.starts_with('.')) else { return };
        let scopes = std::iter::successors(Some(scope), |scope| scope.rsplit_once('.').map(|(outer, _)| outer));
        let candidates = scopes.map(|scope| format!("{scope}.{relative}")).chain([relative.to_owned()]);
        let mut found = candidates.filter(|full| self.visible.iter().any(|types| types.contains(full)));
        if let Some(full) = found.next() {
            *name = Some(format!(".{full}"));
        }
    }
}
