//! An imaginary kind. A new kind needs only a row of the table of kinds, a dialect, and a status.
use lockgate_route::model::{Action, Host, PathMatch};
use lockgate_route::objects::{Kind, KindInfo, Meta, Object, ObjectKey, Revision, Typed};
use lockgate_route::testing::objects::{class, ingress, meta, service};
use lockgate_route::translate::dialect::{Dialect, INGRESS, Resolver, Selection};
use lockgate_route::translate::source::{Dependencies, PlainText, Rule, Shared, Source, WantedPort};
use lockgate_route::translate::unit::{Field, RequestTarget, Unit};
use lockgate_route::translate::verdict::{Status, Verdict};
use lockgate_xds::snapshot::ResourceType;
use tokio::time::{Duration, Instant};

use super::*;
use crate::admin::Readiness;
use crate::controller::{Class, Controller, Fleets, View};
use crate::source::Event;
use crate::status::kind::{ExternalFacts, Facts, Goal, HasStatus};
use crate::status::tests::harness::StatusQueue;

static PAGE: KindInfo = KindInfo { name: "Page", group: "example.com", plural: "pages", ..*Kind::INGRESS.info() };
static DIALECTS: [Dialect; 2] = [
    INGRESS,
    Dialect { kind: Page::KIND, selection: Selection::Parents { of: |_| &[], protocol: "" }, parse, ..INGRESS },
];

/// A page of a host, which the Service `pages` serves. Its status is whether the page is accepted.
#[derive(Debug, Clone, PartialEq)]
struct Page {
    meta: Meta,
    host: &'static str,
    version: Arc<str>,
}

impl Typed for Page {
    const KIND: Kind = Kind::new(&PAGE);

    fn metadata(&self) -> &Meta {
        &self.meta
    }

    fn metadata_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

fn parse(object: &Object, mut resolver: Resolver) -> Result<Source, Dependencies> {
    let page: &Page = object.get().ok_or_else(Dependencies::default)?;
    let origin = object.object_ref();
    let cluster = resolver.cluster(ObjectKey::new("shop", "pages"), WantedPort::Number(80), None);
    let status = if cluster.is_ok() { Status::True } else { Status::False };
    let action = cluster.map_or(Action::respond(503), |(cluster, _)| Action::forward(cluster));
    let target = RequestTarget { action, plain_text: PlainText::Serve, origin: origin.clone() };
    let (field, host) = (Field::new("spec.host", &[]), Host::Exact(page.host.into()));
    let units = [Unit::new(field.clone(), PathMatch::root(), Default::default(), target)].into();
    let verdicts = [Verdict::new(origin.clone(), "Accepted", status, "Service")].into();
    let precedence = resolver.context.objects.precedence(Page::KIND, &page.meta);
    let revision = Revision::new(&page.meta, &page.host);
    let shared = Shared::new(vec![Rule { field, host, units }], vec![]);
    let dependencies = resolver.into_dependencies();
    Ok(Source { asks: true, shared, dependencies, verdicts, ..Source::new(precedence, origin, revision) })
}

impl HasStatus for Page {
    type Status = bool;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<bool>> {
        let status = facts.verdicts.iter().all(|verdict| verdict.status == Status::True);
        facts.published.map(|_| Goal::at_once(status, 0))
    }

    fn patch(&self, accepted: &bool, _: usize, _: k8s_openapi::jiff::Timestamp) -> serde_json::Value {
        serde_json::json!({ "accepted": accepted })
    }

    fn summary(accepted: &bool) -> String {
        accepted.to_string()
    }
}

#[test]
fn an_imaginary_kind_is_translated_triggered_and_given_a_status() {
    let (fleets, (inspection, seen)) = (Fleets::default(), watch::channel(Arc::<Inspection>::default()));
    let (stores, (events, receiver)) = (fleets.stores(), mpsc::channel(9));
    let loop_ = Controller::new(Default::default(), fleets, Readiness::awaiting([]), Metrics::default(), inspection);
    let thread = std::thread::spawn(|| loop_.with_dialects(&DIALECTS).run(receiver));
    let page = Object::new(Page { meta: meta("cart"), host: "page.test", version: "1".into() });
    let cart = ingress("cart").host("ingress.test").path("Prefix", "/", "pages:80").into();
    let listed = Kind::ALL.map(|kind| Event::Listed(kind, vec![])).into_iter();
    let applied = [page, cart, class("ours").into()].map(Event::Applied);
    events.blocking_send(Event::Together(listed.chain(applied).collect())).unwrap();
    let status = |services: usize| {
        let (mut queue, deadline) = (StatusQueue::<Page>::new("us".into()), Instant::now() + Duration::from_secs(30));
        let is_seen = |seen: &Inspection| seen.complete && seen.objects.count(Kind::SERVICE) == services;
        while !is_seen(&seen.borrow()) && Instant::now() < deadline {}
        queue.update(seen.borrow().clone(), ExternalFacts::default(), Instant::now());
        queue.start(Instant::now()).map(|write| write.status)
    };
    assert_eq!(status(0), Some(false), "there is no Service");
    events.blocking_send(Event::Applied(service("pages").port("http", 80).into())).unwrap();
    assert_eq!(status(1), Some(true), "the page reads the Service, so it is translated again");
    let newest = stores.newest(&Class::shared(View::Envoy)).unwrap();
    let clusters = |host: &str| newest.get(ResourceType::SCOPED_ROUTES, host).unwrap().references().clusters.len();
    assert_eq!((clusters("http/page.test"), clusters("http/ingress.test")), (1, 1), "both objects, of one name");
    drop(events);
    thread.join().unwrap().unwrap();
}
