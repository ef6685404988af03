//! A simulation of several replicas and one API server on a timeline. Clocks differ, responses are late or lost, and
//! replicas pause, die, or stop cleanly.

use proptest::prelude::*;

use super::*;

/// Milliseconds of true time.
type Millis = u64;

/// The maximum ratio of the fastest clock to the slowest: 15 s / 10 s would be too much.
const FASTEST: f64 = 1.45;

/// The faults of one request.
#[derive(Debug, Clone)]
struct Luck {
    /// The time until the API server receives it.
    there: Millis,
    /// The time from there to the response.
    back: Millis,
    /// 0: lost on the way to the server; 1: lost on the way back; otherwise not lost.
    lost: u8,
    /// 0: dies after it; 1: stops cleanly after it; 2: hangs for a while; otherwise continues.
    fate: u8,
    chance: f64,
}

const WELL: Luck = Luck { there: 1, back: 1, lost: 9, fate: 9, chance: 0.5 };

fn luck() -> impl Strategy<Value = Luck> {
    let time = prop_oneof![8 => 0u64..50, 1 => 0u64..6000];
    (time.clone(), time, 0u8..16, 0u8..60, 0.0..1.0).prop_map(|(there, back, lost, fate, chance)| Luck {
        there,
        back,
        lost,
        fate,
        chance,
    })
}

/// The Lease at the API server.
#[derive(Debug, Default)]
struct Server {
    version: u64,
    lease: Option<LeaseSpec>,
}

impl Server {
    fn write(&mut self, over: Option<&String>, spec: LeaseSpec) -> Answer {
        let is = self.lease.as_ref().map(|_| self.version.to_string());
        if is.as_ref() != over {
            return Answer::Conflict;
        }
        self.version += 1;
        self.lease = Some(spec.clone());
        Answer::Wrote(self.version.to_string(), spec)
    }
}

#[derive(Debug)]
enum Answer {
    Read(Option<(String, LeaseSpec)>),
    Wrote(String, LeaseSpec),
    Conflict,
}

#[derive(Debug)]
enum State {
    Awake,
    /// The request is on the way.
    Sent {
        sent: Instant,
        write: Option<LeaseSpec>,
        luck: Luck,
    },
    /// The response is on the way, or the timeout is running.
    Answered {
        sent: Instant,
        answer: Option<Answer>,
    },
    Dead,
}

struct Replica {
    election: Election,
    state: State,
    /// The time at which its state continues.
    due: Millis,
    base: Instant,
    rate: f64,
    /// The version that it last read or wrote.
    version: Option<String>,
    fate: u8,
}

impl Replica {
    fn new(i: usize, rate: f64) -> Self {
        let base = Instant::now() + Duration::from_secs(1000 * i as u64);
        let election = Election::new(format!("replica {i}"), timing());
        Self { election, state: State::Awake, due: i as Millis, base, rate, version: None, fate: 9 }
    }

    fn clock(&self, now: Millis) -> Instant {
        self.base + Duration::from_millis(now).mul_f64(self.rate)
    }

    fn leads(&self, now: Millis) -> bool {
        !matches!(self.state, State::Dead) && self.election.leads_until(self.clock(now)).is_some()
    }

    fn is_alive(&self) -> bool {
        !matches!(self.state, State::Dead)
    }

    fn step(&mut self, now: Millis, server: &mut Server, luck: &Luck) {
        let clock = self.clock(now);
        self.due = now;
        self.state = match std::mem::replace(&mut self.state, State::Dead) {
            State::Dead => State::Dead,
            State::Awake => self.awake(now, clock, server, luck),
            State::Sent { sent, write, luck } => {
                self.fate = luck.fate;
                let answer = (luck.lost != 0).then(|| match write {
                    None => Answer::Read(server.lease.clone().map(|spec| (server.version.to_string(), spec))),
                    Some(spec) => server.write(self.version.as_ref(), spec),
                });
                let lost = luck.lost <= 1;
                self.due = now + if lost { 5000 } else { luck.back };
                State::Answered { sent, answer: answer.filter(|_| !lost) }
            }
            State::Answered { sent, answer } => {
                match answer {
                    None => self.election.failed(),
                    Some(Answer::Read(found)) => {
                        self.version = found.as_ref().map(|(version, _)| version.clone());
                        self.election.read(clock, found);
                    }
                    Some(Answer::Wrote(version, spec)) => {
                        self.version = Some(version.clone());
                        self.election.wrote(sent, version, spec);
                    }
                    Some(Answer::Conflict) => self.election.conflicted(),
                }
                State::Awake
            }
        };
    }

    fn awake(&mut self, now: Millis, clock: Instant, server: &mut Server, luck: &Luck) -> State {
        match std::mem::replace(&mut self.fate, 9) {
            0 => return State::Dead,
            1 => {
                if let Some(spec) = self.election.release(wall()) {
                    server.write(self.version.as_ref(), spec);
                }
                return State::Dead;
            }
            2 => {
                self.due = now + 20_000;
                return State::Awake;
            }
            _ => {}
        }
        let write = match self.election.ask(clock, wall(), luck.chance) {
            Ask::Rest(rest) => {
                self.election.rested();
                self.due = now + rest.div_f64(self.rate).as_millis() as Millis + 1;
                return State::Awake;
            }
            Ask::Read => None,
            Ask::Write(spec) => Some(spec),
        };
        self.due = now + luck.there;
        State::Sent { sent: clock, write, luck: luck.clone() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_do_two_lead_at_a_time_and_in_the_end_somebody_does(
        rates in prop::collection::vec(1.0..FASTEST, 2..5),
        lucks in prop::collection::vec(luck(), 0..600),
    ) {
        let mut server = Server::default();
        let mut replicas: Vec<_> = rates.iter().enumerate().map(|(i, rate)| Replica::new(i, *rate)).collect();
        let mut now = 0;
        // After all the faults, there are none.
        for luck in lucks.iter().chain(std::iter::repeat_n(&WELL, 300)) {
            let Some(next) = replicas.iter_mut().filter(|replica| replica.is_alive()).min_by_key(|next| next.due) else {
                return Ok(());
            };
            now = next.due;
            next.step(now, &mut server, luck);
            // No replica starts to lead between two steps, so a check after each step is sufficient.
            let leaders = replicas.iter().filter(|replica| replica.leads(now)).count();
            prop_assert!(leaders <= 1, "{leaders} lead at {now} ms");
        }
        prop_assert!(replicas.iter().any(|replica| replica.leads(now)), "nobody leads at {now} ms");
    }
}

/// Returns whether two replicas lead at the same time. The first is disconnected from the API server after
/// `steps_before` steps. The clock of the second runs faster.
fn two_lead(steps_before: usize, rate: f64) -> bool {
    let (mut server, mut steps) = (Server::default(), 0);
    let cut_off = Luck { lost: 0, ..WELL };
    let mut replicas = [Replica::new(0, 1.0), Replica::new(1, rate)];
    loop {
        let next = usize::from(replicas[1].due < replicas[0].due);
        let now = replicas[next].due;
        steps += usize::from(next == 0);
        replicas[next].step(now, &mut server, if next == 0 && steps > steps_before { &cut_off } else { &WELL });
        if now > 60_000 || replicas.iter().all(|replica| replica.leads(now)) {
            return now <= 60_000;
        }
    }
}

#[test]
fn clocks_beyond_the_permitted_difference_lead_to_two_leaders() {
    for steps in 6..30 {
        assert!(!two_lead(steps, 1.0) && !two_lead(steps, FASTEST));
    }
    assert!((6..30).any(|steps| two_lead(steps, 2.5)));
}
