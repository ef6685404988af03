//! What a change of one HTTPProxy costs among thousands: the resources that Envoys receive, and the statuses that are written.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_xds::snapshot::{Key, Version};
use serde_json::{Value, json};

use super::http_proxies::to;
use super::incremental::{Step, take};
use crate::envoy::{Builder, Change, Forms};
use crate::objects::{Kind, Object, ObjectId, Objects};
use crate::settings::Settings;
use crate::testing::http_proxies::http_proxy;
use crate::testing::objects::{class, meta, objects, service};
use crate::translate::{ChangedInputs, Translator};

/// The number of roots. Each has its own host, and includes one object of another namespace.
const TREES: usize = 1000;

/// The versions of an object: as at first, with another time limit, and with a fault.
#[derive(Debug, Clone, Copy)]
enum Form {
    First,
    Other,
    Faulty,
}

fn route(form: Form) -> Value {
    let limit = match form {
        Form::First => "10s",
        Form::Other => "20s",
        Form::Faulty => "soon",
    };
    json!([{ "services": to("a"), "timeoutPolicy": { "response": limit } }])
}

fn root(number: usize, form: Form) -> Object {
    let include =
        json!([{ "name": format!("team-{number}"), "namespace": "other", "conditions": [{ "prefix": "/team" }] }]);
    let spec = json!({
        "virtualhost": { "fqdn": format!("{number}.test") },
        "includes": include,
        "routes": route(form),
    });
    http_proxy(&format!("root-{number}"), &spec)
}

fn team(number: usize, form: Form) -> Object {
    http_proxy(&format!("other/team-{number}"), &json!({ "routes": route(form) }))
}

/// A translation with the resources of its Envoys.
struct World {
    objects: Objects,
    settings: Settings,
    translator: Translator,
    builder: Builder,
    sent: BTreeMap<Key, Version>,
}

impl World {
    /// Updates everything. Returns the changed resources with their sizes in bytes, and the objects whose status is planned again.
    fn update(&mut self, changed: &ChangedInputs) -> (Vec<(String, usize)>, BTreeSet<ObjectId>) {
        let Self { objects, settings, translator, builder, sent } = self;
        let update = translator.update(objects, settings, changed);
        let change = Change { model: translator.model(), touched: &update.touched, settings, settings_changed: false };
        let built = builder.update(change, Forms::default());
        assert!(!built.shared.remove.iter().any(|key| sent.contains_key(key)));
        let mut new = Vec::new();
        for one in built.shared.set {
            let before = sent.insert((one.kind(), one.name().clone()), one.version());
            if before != Some(one.version()) {
                new.push((one.name().to_string(), one.size()));
            }
        }
        (new, update.sources)
    }

    fn apply(&mut self, object: Object) -> (Vec<(String, usize)>, BTreeSet<ObjectId>) {
        let mut changed = ChangedInputs::default();
        take(Step::Apply(object), &mut self.objects, &mut self.settings, &mut changed);
        self.update(&changed)
    }
}

#[test]
fn a_change_of_one_of_two_thousand_touches_its_host_and_its_own_status() {
    let base = [class("ours").into(), service("a").port("http", 80).into(), service("other/a").port("http", 80).into()];
    let mut settings = Settings::default();
    settings.ingress.classless = true;
    let mut world = World {
        objects: objects(&base),
        settings,
        translator: Translator::default(),
        builder: Builder::default(),
        sent: BTreeMap::new(),
    };
    for number in 0..TREES {
        world.objects.apply(root(number, Form::First));
        world.objects.apply(team(number, Form::First));
    }
    let all: usize = world.update(&ChangedInputs::everything()).0.iter().map(|(_, size)| size).sum();
    let (mut sizes, mut statuses) = (Vec::new(), 0);
    for number in 0..TREES {
        let form = if number % 2 == 0 { Form::Other } else { Form::Faulty };
        for object in [root(number, form), team(number, form)] {
            let (id, before) = (object.id(), world.translator.verdicts().clone());
            let problems = world.translator.problems().clone();
            let (sent, sources) = world.apply(object);
            let [(name, size)] = &sent[..] else { panic!("{id:?} as {form:?}: {sent:?}") };
            assert_eq!(*name, format!("http/{number}.test"), "{id:?} as {form:?}");
            sizes.push(*size);
            // The statuses of the whole tree are planned again, but only that of the changed object differs.
            let tree = [meta(&format!("root-{number}")).key, meta(&format!("other/team-{number}")).key];
            let tree = tree.map(|key| ObjectId { kind: Kind::HTTP_PROXY, key });
            assert!(sources.iter().all(|one| tree.contains(one)), "{id:?} as {form:?}: {sources:?}");
            let other = |one: &&ObjectId| before.get(*one) != world.translator.verdicts().get(*one);
            let changed: BTreeSet<_> = before.keys().chain(world.translator.verdicts().keys()).filter(other).collect();
            assert!(changed.iter().all(|one| **one == id), "{id:?} as {form:?}: {changed:?}");
            let others = |one: &&_| !problems.contains(*one);
            assert!(world.translator.problems().iter().filter(others).all(|one| one.object.name == id.key.name));
            statuses += changed.len();
        }
    }
    assert_eq!(statuses, TREES, "each fault changes one status");
    sizes.sort_unstable();
    println!(
        "{} changes: one resource each, {} to {} bytes; everything has {all} bytes",
        sizes.len(),
        sizes[0],
        sizes[sizes.len() - 1]
    );
}
