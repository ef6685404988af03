//! The export loop, which writes the newest snapshot to files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_xds::protobuf;
use lockgate_xds::snapshot::{Key, Resource, ResourceType, Snapshot, Version};
use tokio::sync::watch;

use super::config_source::by_file;
use super::disk::{Disk, DiskError};
use super::item::{Item, Items, response, response_alone};
use super::layout::{Arrangement, arrangement, file_name, type_of};
use super::plan::{Next, Op, Plan};
use super::{EnvoyDirectory, ExportTiming, Reload};

/// The delay before a failed operation is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// The interval at which Envoy polls files if there are too many to watch.
const POLL: Duration = Duration::from_secs(1);

/// The filters of routes with credentials.
const WITH_CREDENTIALS: [&str; 2] = [
    "envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
    "envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuth",
];

/// Returns whether only the user of Envoy may read a file with this content: secrets, and routes with credentials.
fn is_secret(kind: ResourceType, content: &[u8]) -> bool {
    let contains = |name: &str| content.windows(name.len()).any(|part| part == name.as_bytes());
    let has_no_routes = [ResourceType::CLUSTER, ResourceType::ENDPOINTS].contains(&kind);
    kind == ResourceType::SECRET || !has_no_routes && WITH_CREDENTIALS.into_iter().any(contains)
}

/// The directory of an export, and the properties of its readers.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The directory to write to.
    pub directory: PathBuf,
    /// The place where Envoy reads the files.
    pub place: EnvoyDirectory,
    /// The maximum number of files that Envoy watches. If there are more, all files are polled.
    pub watch_limit: usize,
    /// The delays for Envoys.
    pub timing: ExportTiming,
}

/// Keeps a directory up to date with the newest snapshot.
pub struct Exporter {
    options: ExportOptions,
    /// The place of the options, until there are too many files.
    place: EnvoyDirectory,
    disk: Disk,
    plan: Plan,
    /// The version in the snapshot and the resulting file of each resource.
    items: BTreeMap<Key, (Version, Arc<Item>)>,
    reported: BTreeSet<ResourceType>,
}

impl Exporter {
    /// Opens the directory and continues from its existing files.
    ///
    /// # Errors
    ///
    /// If it cannot be created, read, or locked.
    pub fn open(options: ExportOptions) -> Result<Self, DiskError> {
        let mut disk = Disk::open(&options.directory)?;
        let format = options.place.format;
        let files = disk.read(|name| type_of(name, format).is_some())?;
        let listeners = file_name(ResourceType::LISTENER, "", format);
        let empty = !files.iter().any(|(name, _)| *name == listeners);
        let mut written = Items::new();
        for (file, content) in files {
            match format.read(&content).and_then(|response| resources(&response)) {
                Ok(resources) => written.extend(resources.into_iter().map(|resource| {
                    let item = Item { version: resource.version(), resource };
                    ((item.resource.kind(), item.resource.name().clone()), Arc::new(item))
                })),
                Err(error) => {
                    tracing::warn!(path = %disk.path(&file).display(), "unreadable, and will be replaced: {error}")
                }
            }
        }
        let (mut timing, place) = (options.timing, options.place.clone());
        if let Reload::Poll(interval) = place.reload {
            timing = timing.with_detection_delay(interval);
        }
        let plan = Plan::new(timing, written, empty, Instant::now());
        Ok(Self { options, place, disk, plan, items: BTreeMap::new(), reported: BTreeSet::new() })
    }

    /// Runs until `snapshots` ends. With `once`, it ends when the first snapshot is written completely. Without `once`,
    /// failed writes are repeated. It blocks its thread during writes.
    ///
    /// # Errors
    ///
    /// With `once`, if a file could not be written.
    pub async fn run(
        mut self,
        mut snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
        once: bool,
    ) -> Result<(), DiskError> {
        snapshots.mark_changed();
        loop {
            if snapshots.has_changed().unwrap_or(false) {
                let newest = snapshots.borrow_and_update().clone();
                if let Some(snapshot) = newest {
                    tokio::task::block_in_place(|| self.set_target(&snapshot));
                }
            }
            let until = match self.plan.next(Instant::now()) {
                Next::Write(ops) => match tokio::task::block_in_place(|| self.apply(&ops)) {
                    Ok(()) => {
                        self.plan.done(ops, Instant::now());
                        continue;
                    }
                    Err((_, error)) if once => return Err(error),
                    Err((written, error)) => {
                        self.plan.done(ops.into_iter().take(written).collect(), Instant::now());
                        self.plan.failed();
                        tracing::error!("{error}; retrying in {} s", RETRY.as_secs());
                        Some(Instant::now() + RETRY)
                    }
                },
                Next::Wait(until) => until,
            };
            if once && self.plan.is_idle(Instant::now()) {
                return Ok(());
            }
            let due = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = snapshots.changed() => match changed {
                    Ok(()) => snapshots.mark_changed(),
                    Err(_) => return Ok(()),
                },
                () = due => {}
            }
        }
    }

    /// Sets the target state to `snapshot`.
    fn set_target(&mut self, snapshot: &Snapshot) {
        let alone = |kind: &ResourceType| arrangement(*kind) == Some(Arrangement::Alone);
        let files: usize = snapshot.kinds().filter(alone).map(|kind| snapshot.len(kind)).sum();
        let limit = self.options.watch_limit;
        if files > limit && !matches!(self.place.reload, Reload::Poll(_)) {
            let seconds = POLL.as_secs();
            tracing::warn!(files, limit, "too many files for Envoy to watch: it polls them every {seconds} s instead");
            self.place.reload = Reload::Poll(POLL);
            self.plan.slow_down(POLL);
            self.items.clear();
        }
        let (mut items, mut target) = (BTreeMap::new(), Items::new());
        for kind in snapshot.kinds() {
            if arrangement(kind).is_none() {
                if self.reported.insert(kind) && snapshot.len(kind) > 0 {
                    tracing::warn!(type_url = kind.short_name(), "Envoy does not read this type from files; omitted");
                }
                continue;
            }
            for resource in snapshot.all(kind) {
                let key = (kind, resource.name().clone());
                let known = self.items.remove(&key).filter(|(version, _)| *version == resource.version());
                let item = known.map_or_else(|| self.item(resource), |(_, item)| item);
                target.insert(key.clone(), item.clone());
                items.insert(key, (resource.version(), item));
            }
        }
        self.items = items;
        self.plan.set_target(target);
    }

    /// Converts `resource` for a file.
    fn item(&self, resource: &Arc<Resource>) -> Arc<Item> {
        let (message, unresolved) = by_file(resource, &self.place);
        let (kind, name) = (resource.kind(), resource.name());
        for field in unresolved {
            let type_url = kind.short_name();
            tracing::warn!(type_url, %name, "{field}: requires a stream, and cannot be read from a file; unchanged");
        }
        let version = resource.version();
        let resource = match message {
            Some(message) => Resource::from_encoded(kind, name, &message, Vec::new()),
            None => Resource::clone(resource),
        };
        Arc::new(Item { resource, version })
    }

    /// Applies `ops` to the disk. The files of each type are written before the files of the next type. The error contains
    /// the number of completed `ops`.
    fn apply(&mut self, ops: &[Op]) -> Result<(), (usize, DiskError)> {
        let mut last = None;
        for (written, op) in ops.iter().enumerate() {
            self.apply_one(op, &mut last).map_err(|error| (written, error))?;
        }
        self.disk.sync().map_err(|error| (ops.len(), error))
    }

    fn apply_one(&mut self, op: &Op, last: &mut Option<ResourceType>) -> Result<(), DiskError> {
        let kind = match op {
            Op::Alone(item) => item.resource.kind(),
            Op::Together(kind, _) => *kind,
            Op::Remove((kind, _)) => *kind,
        };
        if last.replace(kind).is_some_and(|last| last != kind) {
            self.disk.sync()?;
        }
        match op {
            Op::Alone(item) => self.write(kind, item.resource.name(), response_alone(item), 1),
            Op::Together(_, items) => self.write(kind, "", response(kind, items), items.len()),
            Op::Remove((_, name)) => {
                let file = file_name(kind, name, self.place.format);
                if self.disk.remove(&file)? {
                    let (type_url, path) = (kind.short_name(), self.disk.path(&file));
                    tracing::info!(type_url, path = %path.display(), "removed");
                }
                Ok(())
            }
        }
    }

    fn write(
        &mut self,
        kind: ResourceType,
        name: &str,
        (version, response): (Version, bytes::Bytes),
        count: usize,
    ) -> Result<(), DiskError> {
        let format = self.place.format;
        let file = file_name(kind, name, format);
        let content = match format.write(&response) {
            Ok(content) => content,
            Err(error) => return Err(DiskError::Format { file, error }),
        };
        let start = Instant::now();
        if self.disk.write(&file, &content, is_secret(kind, &content))? {
            let (type_url, path, bytes) = (kind.short_name(), self.disk.path(&file), content.len());
            let ms = (start.elapsed().as_secs_f64() * 1e4).round() / 10.0;
            tracing::info!(type_url, path = %path.display(), %version, count, bytes, ms, "written");
        }
        Ok(())
    }
}

/// Returns the resources in an encoded `DiscoveryResponse`.
fn resources(response: &[u8]) -> Result<Vec<Resource>, String> {
    use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
    let response: DiscoveryResponse = prost::Message::decode(response).map_err(|error| error.to_string())?;
    let resources = response.resources.iter().map(|any| {
        let kind = ResourceType::of_url(&any.type_url).ok_or_else(|| format!("unknown type {:?}", any.type_url))?;
        let name = protobuf::name_of(&any.type_url, &any.value).unwrap_or_default();
        Ok(Resource::from_encoded(kind, &name, &any.value, Vec::new()))
    });
    resources.collect()
}
