#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulation;

use super::*;

fn second(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wall() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn held_by(holder: &str, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(15),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

/// Returns the default timing.
fn timing() -> ElectionTiming {
    let [lease, renew_deadline, retry] = [15, 10, 2].map(Duration::from_secs);
    ElectionTiming { lease, renew_deadline, retry }
}

#[track_caller]
fn assert_writes(election: &mut Election, now: Instant) -> LeaseSpec {
    match election.ask(now, wall(), 0.5) {
        Ask::Write(spec) => spec,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_rests(election: &mut Election, now: Instant) -> Duration {
    match election.ask(now, wall(), 0.5) {
        Ask::Rest(rest) => rest,
        other => panic!("{other:?}"),
    }
}

/// Returns an election of `me` in which `me` leads since `now`.
fn leading(now: Instant) -> Election {
    let mut election = Election::new("me".into(), timing());
    assert_eq!(election.ask(now, wall(), 0.5), Ask::Read);
    election.read(now, None);
    let spec = assert_writes(&mut election, now);
    election.wrote(now, "1".into(), spec);
    election
}

#[test]
fn a_missing_lease_is_created_and_held() {
    let now = Instant::now();
    let mut election = Election::new("me".into(), timing());
    assert_eq!(election.ask(now, wall(), 0.5), Ask::Read);
    election.read(now, None);
    let spec = assert_writes(&mut election, now);
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("me"), Some(0)));
    assert_eq!((spec.acquire_time.clone(), spec.lease_duration_seconds), (Some(MicroTime(wall())), Some(15)));
    assert_eq!(election.leads_until(now), None, "before the answer");
    election.wrote(now, "1".into(), spec);
    assert_eq!(election.leads_until(now), Some(now + second(10)));
    assert_eq!(election.leads_until(now + second(10)), None);
    assert_eq!(assert_rests(&mut election, now), Duration::from_millis(1500));
}

#[test]
fn the_holder_renews_without_reading_and_keeps_the_time_of_acquisition() {
    let now = Instant::now();
    let mut election = leading(now);
    election.rested();
    let later = Timestamp::from_second(1_800_000_002).unwrap();
    let Ask::Write(spec) = election.ask(now + second(2), later, 0.5) else { panic!("no renewal") };
    assert_eq!((spec.acquire_time.clone(), spec.renew_time.clone()), (Some(MicroTime(wall())), Some(MicroTime(later))));
    election.wrote(now + second(2), "2".into(), spec);
    assert_eq!(election.leads_until(now + second(11)), Some(now + second(12)));
}

#[test]
fn an_expired_lease_of_another_replica_is_taken() {
    let start = Instant::now();
    let mut election = Election::new("me".into(), timing());
    election.ask(start, wall(), 0.5);
    election.read(start, Some(("7".into(), held_by("other", 3))));
    assert_eq!(election.holder(), Some("other"));
    assert_rests(&mut election, start);
    for seconds in [2, 4, 14] {
        election.rested();
        assert_eq!(election.ask(start + second(seconds), wall(), 0.5), Ask::Read);
        election.read(start + second(seconds), Some(("7".into(), held_by("other", 3))));
        let rest = assert_rests(&mut election, start + second(seconds));
        assert!(seconds < 14 || rest == second(1), "wakes when it may take it, not later: {rest:?}");
    }
    election.rested();
    election.ask(start + second(15), wall(), 0.5);
    election.read(start + second(15), Some(("7".into(), held_by("other", 3))));
    let spec = assert_writes(&mut election, start + second(15));
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("me"), Some(4)));
}

#[test]
fn a_new_version_is_a_renewal_regardless_of_clocks() {
    let start = Instant::now();
    let mut election = Election::new("me".into(), timing());
    for (seconds, version) in [(0, "7"), (10, "8"), (20, "9"), (30, "10")] {
        election.ask(start + second(seconds), wall(), 0.5);
        election.read(start + second(seconds), Some((version.into(), held_by("other", 3))));
        assert_rests(&mut election, start + second(seconds));
        election.rested();
    }
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let now = Instant::now();
    let mut election = Election::new("me".into(), timing());
    election.ask(now, wall(), 0.5);
    election.read(now, Some(("7".into(), held_by("", 3))));
    assert_eq!(assert_writes(&mut election, now).lease_transitions, Some(4));
}

#[test]
fn only_the_holder_recreates_a_deleted_lease() {
    let now = Instant::now();
    let mut holder = leading(now);
    holder.rested();
    assert_writes(&mut holder, now + second(2));
    holder.conflicted();
    assert_eq!(holder.ask(now + second(2), wall(), 0.5), Ask::Read);
    holder.read(now + second(2), None);
    assert_eq!(assert_writes(&mut holder, now + second(2)).lease_transitions, Some(0));

    let mut other = Election::new("other".into(), timing());
    other.ask(now, wall(), 0.5);
    other.read(now, Some(("1".into(), held_by("me", 0))));
    assert_rests(&mut other, now);
    other.rested();
    other.ask(now + second(2), wall(), 0.5);
    other.read(now + second(2), None);
    assert_rests(&mut other, now + second(2));
}

#[test]
fn a_replica_steps_down_when_another_holds_the_lease() {
    let now = Instant::now();
    let mut election = leading(now);
    election.rested();
    assert_writes(&mut election, now + second(1));
    election.conflicted();
    assert!(election.leads_until(now + second(1)).is_some(), "who wrote is not known yet");
    assert_eq!(election.ask(now + second(1), wall(), 0.5), Ask::Read);
    election.read(now + second(1), Some(("9".into(), held_by("other", 1))));
    assert_eq!(election.leads_until(now + second(1)), None);
    assert_rests(&mut election, now + second(1));
}

#[test]
fn an_edit_by_another_writer_costs_one_more_write() {
    let now = Instant::now();
    let mut election = leading(now);
    election.rested();
    let spec = assert_writes(&mut election, now + second(1));
    election.conflicted();
    election.ask(now + second(1), wall(), 0.5);
    election.read(now + second(1), Some(("9".into(), spec)));
    assert_writes(&mut election, now + second(1));
    election.conflicted();
    assert_rests(&mut election, now + second(1));
}

#[test]
fn failures_end_the_term_at_the_renew_deadline_without_a_busy_loop() {
    let start = Instant::now();
    let mut election = leading(start);
    let mut now = start;
    let mut attempts = 0;
    while election.leads_until(now).is_some() {
        now += assert_rests(&mut election, now);
        election.rested();
        match election.ask(now, wall(), 1.0) {
            Ask::Rest(rest) => panic!("{rest:?} after a rest"),
            _ => attempts += 1,
        }
        election.failed();
    }
    assert_eq!(now - start, second(10));
    assert!((5..=10).contains(&attempts), "{attempts}");
    assert!(assert_rests(&mut election, now) >= second(1));
}

#[test]
fn a_released_lease_has_no_holder() {
    let now = Instant::now();
    let mut election = leading(now);
    let spec = election.release(wall()).unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
    assert_eq!(election.leads_until(now), None);

    let mut follower = Election::new("me".into(), timing());
    follower.ask(now, wall(), 0.5);
    follower.read(now, Some(("7".into(), held_by("other", 3))));
    assert_eq!(follower.release(wall()), None);
}
