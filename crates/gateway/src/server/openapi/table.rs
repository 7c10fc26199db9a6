//! Every operation of the server.

use bell_api::ask::{AcquireRequest, LeaveRequest, Nothing, ReleaseRequest, RenewRequest, SessionRequest};
use bell_api::control::deliveries::{
    DeliveriesAnswer, DeliveriesQuery, DeliveryAnswer, DeliveryQuery, DeliveryShown, RedeliverRequest,
};
use bell_api::control::{
    AgentAnswer, AgentsAnswer, BreakRequest, DoneAnswer, EventsQuery, FeedEvent, HistoryAnswer, HistoryQuery,
    JobAnswer, JobQuery, KillRequest, LogAnswer, LogQuery, PauseRequest, QueuesAnswer, ReplayAnswer,
    ReplayRequest, ResumeRequest, RunShown, RunsAnswer, RunsQuery, ScaleRequest, SimpleRequest, StatusAnswer,
    StatusQuery, StopRequest, TriggerAnswer, TriggerRequest, UndoneAnswer, UndoneQuery, WhyAnswer, WhyQuery,
};
use bell_api::lock::{ChangesAnswer, ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_api::session::{HeartbeatAnswer, RevokedAnswer, SessionAnswer};

use super::operation::{Needs, Operation, act, look};
use super::shapes::{ChangesQuery, LockQuery, LocksQuery, WatchQuery};
use crate::server::health::{Health, Readiness};

/// What the document begins with.
pub(super) const ABOUT: &str = "\
Every answer is a JSON object with `outcome`. A refusal has `outcome`, `message` (what happened) and `hint` (what to do next), \
and the same again in `error`; its status is that of the outcome, or a more exact one. Unknown names in a query and unknown \
fields in a body are refused; unknown fields of an answer are to be ignored. Requests show `Authorization: Bearer KEY`.";

const FLEET: &str = "fleet";
const RUNS: &str = "runs";
const JOBS: &str = "jobs";
const LOCKS: &str = "locks";
const SESSIONS: &str = "sessions";
const OUTSIDE: &str = "webhooks";
const DAEMON: &str = "daemon";

/// What operations are about.
pub(super) const TOPICS: &[(&str, &str)] = &[
    (FLEET, "How the fleet stands, what happens in it, and holding it."),
    (RUNS, "What runs and ran, and what it printed."),
    (JOBS, "What waits, and what was not done."),
    (LOCKS, "Taking, keeping, giving back and looking at locks."),
    (SESSIONS, "Sessions of programs outside of any run: whoever takes locks has one."),
    (OUTSIDE, "What is told from outside."),
    (DAEMON, "The daemon itself."),
];

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = fleet();
    all.extend(runs());
    all.extend(jobs());
    all.extend(locks());
    all.extend(sessions());
    all.extend(outside());
    all.extend(daemon());
    all
}

/// What is answered at /metrics.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NO_SUCH: &[Outcome] = &[Outcome::NotFound];

fn fleet() -> Vec<Operation> {
    vec![
        look(FLEET, "/v1/status", "How the fleet stands: what runs, what waits, what is due next")
            .asks::<StatusQuery>()
            .answers::<StatusAnswer>()
            .refused(NO_SUCH),
        look(FLEET, "/v1/agents", "The agents, and how each stands").answers::<AgentsAnswer>(),
        look(FLEET, "/v1/agents/{agent}", "One agent").answers::<AgentAnswer>().refused(NO_SUCH),
        act(FLEET, "/v1/agents/{agent}/run", "Has an agent run now, or as soon as a runner is free")
            .details("Answered once the job is stored. A job that waits for its run can be asked about at /v1/jobs/{job}.")
            .takes::<TriggerRequest>()
            .answers::<TriggerAnswer>()
            .refused(&[Outcome::NotFound, Outcome::Busy, Outcome::Unavailable]),
        act(FLEET, "/v1/agents/{agent}/scale", "Says how many of an agent may run, until said otherwise")
            .takes::<ScaleRequest>()
            .answers::<DoneAnswer>()
            .refused(NO_SUCH),
        act(FLEET, "/v1/agents/{agent}/clear", "Takes every job of an agent out of its queue; each can be replayed")
            .takes::<SimpleRequest>()
            .answers::<DoneAnswer>()
            .refused(NO_SUCH),
        act(FLEET, "/v1/pause", "Lets nothing new start, in the fleet or of one agent")
            .takes::<PauseRequest>()
            .answers::<DoneAnswer>()
            .refused(NO_SUCH),
        act(FLEET, "/v1/resume", "Lets a paused fleet or agent go on")
            .takes::<ResumeRequest>()
            .answers::<DoneAnswer>()
            .refused(NO_SUCH),
        look(FLEET, "/v1/history", "What happened, the latest last")
            .asks::<HistoryQuery>()
            .answers::<HistoryAnswer>()
            .refused(NO_SUCH),
        look(FLEET, "/v1/events", "What happens, as it happens")
            .details(
                "A stream of server-sent events. The name of an event is its kind, its id is where to go on: sent back as \
                 Last-Event-ID or after=, nothing is missed and nothing comes twice, also after a restart and with another \
                 daemon of the fleet. A comment comes every 15 s in which nothing happens. A reader that takes nothing for \
                 30 s, or is far behind, is cut off.",
            )
            .asks::<EventsQuery>()
            .streams::<FeedEvent>(),
        look(FLEET, "/v1/why", "Why something is as it is")
            .asks::<WhyQuery>()
            .answers::<WhyAnswer>()
            .refused(NO_SUCH),
    ]
}

fn runs() -> Vec<Operation> {
    vec![
        look(RUNS, "/v1/runs", "What runs and what ran, the latest first").asks::<RunsQuery>().answers::<RunsAnswer>(),
        look(RUNS, "/v1/runs/{run}", "Everything that is on record of a run").answers::<RunShown>().refused(NO_SUCH),
        look(RUNS, "/v1/runs/{run}/logs", "What a run printed")
            .details(
                "One object with a part of it; with follow=true a stream of server-sent events, which goes on while the \
                 run does. The id of an event is the offset where to go on, as Last-Event-ID or from=.",
            )
            .asks::<LogQuery>()
            .answers_or_streams::<LogAnswer>()
            .refused(NO_SUCH),
        act(RUNS, "/v1/runs/{run}/kill", "Ends a run, with every process that it started")
            .takes::<KillRequest>()
            .answers::<DoneAnswer>()
            .refused(&[Outcome::NotFound, Outcome::Busy]),
    ]
}

fn jobs() -> Vec<Operation> {
    vec![
        look(JOBS, "/v1/jobs", "What waits, agent by agent").answers::<QueuesAnswer>(),
        look(JOBS, "/v1/jobs/{job}", "Where a job stands, now or when it is over")
            .asks::<JobQuery>()
            .answers::<JobAnswer>()
            .ends(&[Outcome::Listed, Outcome::Waiting])
            .refused(NO_SUCH),
        act(JOBS, "/v1/jobs/{job}/cancel", "Takes a job out of the queue")
            .takes::<SimpleRequest>()
            .answers::<DoneAnswer>()
            .refused(&[Outcome::NotFound, Outcome::Busy]),
        act(JOBS, "/v1/jobs/{job}/replay", "Queues a job again that is over")
            .takes::<SimpleRequest>()
            .answers::<DoneAnswer>()
            .refused(&[Outcome::NotFound, Outcome::Busy]),
        look(JOBS, "/v1/undone", "Jobs that were not done, the latest first")
            .asks::<UndoneQuery>()
            .answers::<UndoneAnswer>(),
        act(JOBS, "/v1/undone/replay", "Replays jobs that were not done, each once")
            .takes::<ReplayRequest>()
            .answers::<ReplayAnswer>(),
    ]
}

const DENIED: &[Outcome] = &[
    Outcome::Busy,
    Outcome::TimedOut,
    Outcome::Deadlock,
    Outcome::NotHolder,
    Outcome::NotHeld,
    Outcome::Lost,
];

fn locks() -> Vec<Operation> {
    vec![
        act(LOCKS, "/v1/locks/acquire", "Takes locks, all or nothing, at once or after waiting in the queue")
            .needs(Needs::Session)
            .takes::<AcquireRequest>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Granted, Outcome::Waiting])
            .refused(DENIED),
        act(LOCKS, "/v1/locks/leave", "Gives up a request that waits")
            .needs(Needs::Session)
            .takes::<LeaveRequest>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Released])
            .refused(&[Outcome::NotHeld, Outcome::NotFound, Outcome::Lost]),
        act(LOCKS, "/v1/locks/renew", "Makes a lease last its full ttl again")
            .needs(Needs::Session)
            .takes::<RenewRequest>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Renewed])
            .refused(DENIED),
        act(LOCKS, "/v1/locks/release", "Gives a lease back")
            .needs(Needs::Session)
            .takes::<ReleaseRequest>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Released])
            .refused(DENIED),
        look(LOCKS, "/v1/locks", "The locks that somebody holds or waits for")
            .needs(Needs::KeyOrSession)
            .asks::<LocksQuery>()
            .answers::<ListAnswer>()
            .refused(&[Outcome::Lost]),
        look(LOCKS, "/v1/locks/show", "Who holds a lock and who waits for it")
            .needs(Needs::KeyOrSession)
            .asks::<LockQuery>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Free, Outcome::Held])
            .refused(&[Outcome::Lost]),
        look(LOCKS, "/v1/locks/changes", "Waits for changes after a revision")
            .needs(Needs::KeyOrSession)
            .asks::<ChangesQuery>()
            .answers::<ChangesAnswer>()
            .ends(&[Outcome::Listed, Outcome::Waiting])
            .refused(&[Outcome::Lost]),
        look(LOCKS, "/v1/locks/watch", "The locks as they change")
            .details(
                "A stream of server-sent events: first `state` with all of them, then `changed` with one. A reader that \
                 comes back with the last id hears nothing if nothing has changed, and else `state` anew.",
            )
            .needs(Needs::KeyOrSession)
            .asks::<WatchQuery>()
            .streams::<LockAnswer>()
            .refused(&[Outcome::Lost]),
        act(LOCKS, "/v1/locks/break", "Takes a lock from whoever holds it")
            .takes::<BreakRequest>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Broken])
            .refused(&[Outcome::NotHeld]),
    ]
}

fn sessions() -> Vec<Operation> {
    vec![
        act(SESSIONS, "/v1/sessions", "Makes a session").takes::<SessionRequest>().answers::<SessionAnswer>(),
        act(SESSIONS, "/v1/sessions/heartbeat", "Keeps a session alive, and tells what was taken from it")
            .needs(Needs::Session)
            .takes::<Nothing>()
            .answers::<HeartbeatAnswer>()
            .ends(&[Outcome::Renewed])
            .refused(&[Outcome::Lost]),
        look(SESSIONS, "/v1/sessions/hold", "Keeps a session alive for as long as the answer is read")
            .needs(Needs::Session)
            .streams::<RevokedAnswer>()
            .refused(&[Outcome::Lost]),
        act(SESSIONS, "/v1/sessions/end", "Ends a session, with everything that it holds")
            .needs(Needs::Session)
            .takes::<Nothing>()
            .answers::<LockAnswer>()
            .ends(&[Outcome::Ended])
            .refused(&[Outcome::Lost]),
    ]
}

fn outside() -> Vec<Operation> {
    vec![
        act(OUTSIDE, "/webhooks/{source}", "Tells what happened elsewhere")
            .details(
                "For the source itself: how it signs is its own affair, and docs/how-to/webhooks.md has it. Answered as \
                 accepted once it is stored. A question of the source (a ping, a challenge) is answered as the source wants.",
            )
            .needs(Needs::Signature)
            .takes_bytes()
            .answers::<DeliveryAnswer>()
            .ends(&[])
            .also(&[(202, "It is stored, and so are its jobs."), (200, "A question of the source is answered.")])
            .refused(NO_SUCH),
        look(OUTSIDE, "/v1/deliveries", "What was told, the latest first")
            .asks::<DeliveriesQuery>()
            .answers::<DeliveriesAnswer>(),
        look(OUTSIDE, "/v1/deliveries/{delivery}", "One delivery, and why each agent did or did not want it")
            .asks::<DeliveryQuery>()
            .answers::<DeliveryShown>()
            .refused(&[Outcome::NotFound, Outcome::Busy]),
        act(OUTSIDE, "/v1/deliveries/{delivery}/replay", "Tells a delivery again, to the agents that want it now")
            .takes::<RedeliverRequest>()
            .answers::<DeliveryAnswer>()
            .refused(&[Outcome::NotFound, Outcome::Busy]),
    ]
}

fn daemon() -> Vec<Operation> {
    vec![
        look(DAEMON, "/healthz", "Whether somebody is there").needs(Needs::Nothing).answers::<Health>(),
        look(DAEMON, "/readyz", "Whether it can work: its store, its renewals, its disk")
            .details("Answered with 503 if something is not in order; the answer says what.")
            .needs(Needs::Nothing)
            .answers::<Readiness>()
            .ends(&[Outcome::Listed, Outcome::Unavailable]),
        look(DAEMON, "/metrics", "The numbers that operators watch, as OpenMetrics text")
            .details("Needs no key where the project sets gateway.metrics = \"open\".")
            .text(METRICS),
        act(DAEMON, "/mcp", "The Model Context Protocol, over streamable HTTP")
            .details("JSON-RPC messages. With an API key the tools are an operator's, with the token of a run that run's own.")
            .needs(Needs::KeyOrRun)
            .takes_bytes()
            .answers_object()
            .ends(&[Outcome::Listed])
            .bare(&[(202, "Nothing is to be answered.")])
            .also(&[(406, "It has to accept JSON and event streams.")]),
        act(DAEMON, "/v1/reload", "Has the daemon read its project again")
            .details("It does so by itself within a second of a change; this returns when it has.")
            .takes::<SimpleRequest>()
            .answers::<DoneAnswer>(),
        act(DAEMON, "/v1/stop", "Stops the daemon")
            .details("Answered before it stops. Asked a second time, what runs is ended.")
            .takes::<StopRequest>()
            .answers::<DoneAnswer>(),
        look(DAEMON, "/openapi.json", "This document").needs(Needs::Nothing).answers_object(),
    ]
}
