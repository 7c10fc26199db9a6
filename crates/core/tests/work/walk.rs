//! Random walks: whatever happens in whatever order, the records agree with each other and no job is lost.

use std::collections::BTreeSet;

use bell_core::work::accept::{Overflow, Room};
use bell_core::work::claim::Claimed;
use bell_core::work::fire::Overlap;
use bell_core::work::job::{JobId, Rules, State, Trigger};
use bell_core::work::line::{Caps, Line, Pool};
use bell_core::work::pause::Extent;
use bell_core::work::row::{Row, RowId};
use bell_core::work::run::{Class, End, RunId};
use bell_core::work::speak::Word;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::desk::{Desk, agent, manual};

const AGENTS: [&str; 2] = ["a", "b"];
const CAPS: Caps = Caps { agent: 2, fleet: Some(3) };
const ROOM: Room = Room { size: 4, overflow: Overflow::DropOldest };

#[derive(Clone, Debug)]
enum Step {
    Accept(usize),
    Fire(usize, u64, Overlap),
    Claim(usize),
    ClaimAndDie(usize),
    Rerun(Index),
    Finish(Index, End),
    Kill(Index),
    Lose(Index),
    Retry(Index),
    Cancel(Index),
    Replay(Index),
    Clear(usize),
    Pause(Extent),
    Resume(Extent),
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..AGENTS.len();
    let overlap = prop_oneof![Just(Overlap::Skip), Just(Overlap::QueueOne), Just(Overlap::Queue)];
    let end = prop_oneof![
        3 => Just(End::Completed),
        1 => Just(End::Failed { code: 1 }),
        1 => Just(End::Timeout),
        2 => Just(End::not_started("no descriptors")),
        1 => Just(End::Killed { reason: "enough".to_owned() }),
    ];
    let extent =
        || prop_oneof![Just(Extent::Fleet), which().prop_map(|which| Extent::Agent(agent(AGENTS[which])))];
    prop_oneof![
        6 => which().prop_map(Step::Accept),
        2 => (which(), 0..6_u64, overlap).prop_map(|(which, nominal, overlap)| Step::Fire(which, nominal, overlap)),
        8 => which().prop_map(Step::Claim),
        1 => which().prop_map(Step::ClaimAndDie),
        1 => any::<Index>().prop_map(Step::Rerun),
        6 => (any::<Index>(), end).prop_map(|(run, end)| Step::Finish(run, end)),
        2 => any::<Index>().prop_map(Step::Kill),
        2 => any::<Index>().prop_map(Step::Lose),
        3 => any::<Index>().prop_map(Step::Retry),
        2 => any::<Index>().prop_map(Step::Cancel),
        2 => any::<Index>().prop_map(Step::Replay),
        1 => which().prop_map(Step::Clear),
        1 => extent().prop_map(Step::Pause),
        2 => extent().prop_map(Step::Resume),
        2 => Just(Step::Pass),
    ]
}

/// What the walk itself knows.
#[derive(Default)]
struct Walk {
    desk: Desk,
    jobs: Vec<JobId>,
    runs: Vec<RunId>,
}

impl Walk {
    fn take(&mut self, step: &Step) {
        let Self { desk, jobs, runs } = self;
        match step {
            Step::Accept(which) => {
                let retry_on = BTreeSet::from([Class::Failed, Class::Lost]);
                let rules = Rules { max_reruns: 1, retries: 1, retry_on, backoff_ms: 10, ..Rules::default() };
                let before = desk.waiting(AGENTS[*which]);
                jobs.push(desk.accept_with(AGENTS[*which], manual(), rules, ROOM));
                assert!(desk.waiting(AGENTS[*which]) <= ROOM.size.max(before));
            }
            Step::Fire(which, nominal, overlap) => {
                desk.fire(AGENTS[*which], *nominal, *overlap, CAPS);
                let rows = desk.rows();
                let known: BTreeSet<_> = jobs.iter().cloned().collect();
                let of_jobs =
                    rows.keys().filter_map(|id| if let RowId::Job(id) = id { Some(id) } else { None });
                jobs.extend(of_jobs.filter(|id| !known.contains(id)).cloned());
            }
            Step::Claim(which) => runs.extend(desk.claim(AGENTS[*which], CAPS).map(|(_, run)| run)),
            Step::ClaimAndDie(which) => {
                let runner = desk.runner();
                if let Claimed::Job { .. } = desk.claim_as(AGENTS[*which], &runner, CAPS) {
                    desk.kill(&runner.run);
                    runs.push(runner.run);
                }
            }
            Step::Clear(which) => drop(desk.clear(AGENTS[*which])),
            Step::Pause(extent) => drop(desk.pause(extent)),
            Step::Resume(extent) => drop(desk.resume(extent)),
            Step::Pass => desk.pass(10),
            Step::Rerun(run) => drop(pick(runs, run).map(|run| desk.say(run, Word::Rerun))),
            Step::Finish(run, end) => drop(pick(runs, run).map(|run| desk.finish(run, end.clone()))),
            Step::Kill(run) => drop(pick(runs, run).map(|run| desk.kill(run))),
            Step::Lose(run) => drop(pick(runs, run).map(|run| desk.lose(run))),
            Step::Retry(job) => drop(pick(jobs, job).map(|job| desk.retry(job))),
            Step::Cancel(job) => drop(pick(jobs, job).map(|job| desk.cancel(job))),
            Step::Replay(job) => drop(pick(jobs, job).map(|job| desk.replay(job))),
        }
    }

    /// Whether the records agree with each other.
    fn check(&self) {
        let rows = self.desk.rows();
        let pool = match rows.get(&RowId::Pool) {
            Some(Row::Pool(pool)) => pool.clone(),
            _ => Pool::default(),
        };
        assert!(pool.slots.len() <= CAPS.fleet.unwrap(), "{pool:?}");
        let (mut tickets, mut delays, mut undone, mut live) = (0, 0, 0, 0);
        for id in &self.jobs {
            let job = self.desk.job(id);
            let agent = job.spec.agent.clone();
            match &job.state {
                State::Queued { place } => {
                    let ticket = rows.get(&RowId::Ticket(agent, *place));
                    assert!(matches!(ticket, Some(Row::Ticket(ticket)) if ticket.job == *id), "{ticket:?}");
                    tickets += 1;
                }
                State::Delayed { due } => {
                    assert!(rows.contains_key(&RowId::Delay(*due, id.clone())));
                    delays += 1;
                }
                State::Running { run } => {
                    assert!(self.desk.run(run).ended.is_none(), "{run} has ended, {id} runs");
                    assert!(pool.slots.iter().any(|slot| slot.run == *run), "{run} has no slot");
                    live += 1;
                }
                State::Over { fate, at } => {
                    let listed = rows.contains_key(&RowId::Undone(*at, id.clone()));
                    assert_eq!(listed, fate.is_undone(), "{id}: {fate:?}");
                    undone += usize::from(listed);
                }
            }
        }
        let count = |is: fn(&RowId) -> bool| rows.keys().filter(|id| is(id)).count();
        assert_eq!(tickets, count(|id| matches!(id, RowId::Ticket(..))), "tickets without jobs");
        assert_eq!(delays, count(|id| matches!(id, RowId::Delay(..))), "delays without jobs");
        assert_eq!(undone, count(|id| matches!(id, RowId::Undone(..))), "undone without jobs");
        assert_eq!(live, pool.slots.len(), "slots without jobs");
        AGENTS.iter().for_each(|name| self.check_line(name, &pool));
    }

    fn check_line(&self, name: &str, pool: &Pool) {
        let (rows, agent) = (self.desk.rows(), agent(name));
        assert!(pool.slots_of(&agent).count() <= CAPS.agent);
        let line = match rows.get(&RowId::Line(agent.clone())) {
            Some(Row::Line(line)) => line.clone(),
            _ => Line::default(),
        };
        let mut scheduled = 0;
        let mut places = Vec::new();
        for (id, row) in &rows {
            if let (RowId::Ticket(of, place), Row::Ticket(ticket)) = (id, row)
                && *of == agent
            {
                places.push(*place);
                let trigger = self.desk.job(&ticket.job).spec.trigger;
                scheduled += u32::from(matches!(trigger, Trigger::Cron { .. }));
            }
        }
        assert_eq!(line.waiting as usize, places.len(), "{name}");
        assert_eq!(line.scheduled, scheduled, "{name}");
        assert!(places.iter().all(|place| (line.front..line.back).contains(place)), "{line:?}: {places:?}");
    }
}

fn pick<'a, T>(all: &'a [T], index: &Index) -> Option<&'a T> {
    if all.is_empty() { None } else { Some(index.get(all)) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_records_agree_after_every_step(steps in prop::collection::vec(step(), 1..120)) {
        let mut walk = Walk::default();
        for step in &steps {
            walk.take(step);
            walk.check();
        }
    }

    #[test]
    fn whatever_happened_everything_accepted_gets_done_in_the_end(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut walk = Walk::default();
        steps.iter().for_each(|step| walk.take(step));
        let (desk, caps) = (&mut walk.desk, Caps { agent: 1_000, fleet: None });
        desk.resume(&Extent::Fleet);
        for name in AGENTS {
            desk.resume(&Extent::Agent(agent(name)));
        }
        desk.pass(1_000);
        for job in &walk.jobs {
            desk.retry(job);
        }
        walk.runs.iter().for_each(|run| drop(desk.finish(run, End::Completed)));
        for name in AGENTS {
            // Several may have been put back, each with a wait of its own.
            while desk.waiting(name) > 0 {
                desk.pass(30_000);
                while let Some((_, run)) = desk.claim(name, caps) {
                    desk.finish(&run, End::Completed);
                }
            }
        }
        for job in &walk.jobs {
            assert!(matches!(desk.job(job).state, State::Over { .. }), "{job}: {:?}", desk.job(job));
        }
    }
}
