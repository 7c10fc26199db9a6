//! What operators ask and do, over the memory store and a project in a folder of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bell_api::control::acts::{
    BreakRequest, KillRequest, PauseRequest, ResumeRequest, ScaleRequest, TriggerRequest,
};
use bell_api::control::deliveries::{DELIVERIES_MAX, DeliveriesQuery};
use bell_api::control::history::HistoryQuery;
use bell_api::control::jobs::{JobState, UndoneQuery};
use bell_api::control::runs::RunsQuery;
use bell_api::control::status::StatusQuery;
use bell_api::outcome::Outcome;
use bell_control::limits::caps;
use bell_control::{Control, Refused, Who};
use bell_coord::work::running::{Claim, Work};
use bell_coord::work::wall_now;
use bell_coord::{Ask, Coord, Keep, Session};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_core::work::delivery::{Delivery, DeliveryKey};
use bell_core::work::receive::Receipt;
use bell_core::work::run::End;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_store::memory::Memory;

/// A fleet whose project has the agents `triage`, of which two may run, and `idle`, which is disabled.
struct Fleet {
    control: Control,
    _folder: tempfile::TempDir,
}

fn fleet() -> Fleet {
    let folder = tempfile::tempdir().unwrap();
    for (name, settings) in
        [("triage", "scale = 2\nwork_queue_size = 3\noverflow = \"reject\""), ("idle", "scale = 0")]
    {
        let agent = folder.path().join("agents").join(name);
        std::fs::create_dir_all(&agent).unwrap();
        let skill = format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n");
        std::fs::write(agent.join("SKILL.md"), skill).unwrap();
        std::fs::write(agent.join("config.toml"), format!("{settings}\nrun = [\"true\"]\n")).unwrap();
    }
    let project = Folder::open(folder.path()).unwrap();
    let loaded = Loaded::load(&project);
    assert_eq!(loaded.agents.len(), 2, "{:?}", loaded.problems);
    let coord = Coord::new(Arc::new(Memory::new()));
    let control = Control::once(coord.clone(), coord, Arc::new(project), Arc::new(loaded)).on("memory:");
    Fleet { control, _folder: folder }
}

fn ann() -> Who {
    Who::local("ann")
}

impl Fleet {
    async fn run(&self) -> String {
        let accepted = self.control.trigger("triage", &TriggerRequest::default(), &ann()).await.unwrap();
        accepted.job.to_string()
    }

    async fn try_claim(&self) -> Option<Claim> {
        let (loaded, name) = (self.control.loaded(), "triage".parse().unwrap());
        let caps = caps(&loaded, &loaded.agents[&name]);
        match self.control.coord.claim(&name, caps, "here").await.unwrap() {
            Work::Job(claim) => Some(*claim),
            _ => None,
        }
    }

    async fn scale(&self, to: Option<u32>) -> String {
        let request = ScaleRequest { scale: to, reason: Some("a rush".to_owned()), by: None };
        self.control.scale("triage", &request, &ann()).await.unwrap().message
    }

    async fn end(&self, claim: &Claim, end: End) {
        self.control.coord.begin(&claim.run, None).await.unwrap();
        self.control.coord.finish(&claim.run, &end).await.unwrap();
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Refused>, outcome: Outcome) -> String {
    let refused = answer.unwrap_err();
    assert_eq!(refused.outcome(), outcome, "{refused:?}");
    assert!(!refused.hint().is_empty());
    refused.message().to_owned()
}

#[tokio::test]
async fn a_job_is_accepted_once_however_often_it_is_asked_for_with_one_id() {
    let fleet = fleet();
    let request = TriggerRequest { request_id: Some("r-1".to_owned()), ..TriggerRequest::default() };
    let first = fleet.control.trigger("triage", &request, &ann()).await.unwrap();
    let again = fleet.control.trigger("triage", &request, &ann()).await.unwrap();
    assert_eq!((first.ahead, again.ahead), (Some(0), None));
    assert_eq!(first.job, again.job);
    let wrong = TriggerRequest { request_id: Some("a b".to_owned()), ..TriggerRequest::default() };
    refused(fleet.control.trigger("triage", &wrong, &ann()).await, Outcome::Invalid);
}

#[tokio::test]
async fn the_prompt_and_what_else_is_told_come_with_the_trigger() {
    let fleet = fleet();
    let context = serde_json::json!({"number": 42}).as_object().cloned();
    let request = TriggerRequest { prompt: Some("now".to_owned()), context, ..TriggerRequest::default() };
    let job = fleet.control.trigger("triage", &request, &Who::key("laptop")).await.unwrap().job;
    let payload = fleet.control.coord.payload(&job).await.unwrap().unwrap();
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload, serde_json::json!({"number": 42, "prompt": "now"}));
    let shown = fleet.control.job(job.as_str(), Duration::ZERO).await.unwrap();
    assert_eq!(serde_json::to_value(shown.trigger).unwrap()["by"], "key laptop");
}

#[tokio::test]
async fn an_agent_that_is_unknown_disabled_or_full_takes_nothing_on() {
    let fleet = fleet();
    let request = TriggerRequest::default();
    let said = refused(fleet.control.trigger("triagee", &request, &ann()).await, Outcome::NotFound);
    assert!(said.ends_with("did you mean triage?"), "{said}");
    refused(fleet.control.trigger("no such name", &request, &ann()).await, Outcome::Invalid);
    refused(fleet.control.trigger("idle", &request, &ann()).await, Outcome::Invalid);
    for _ in 0..3 {
        fleet.run().await;
    }
    refused(fleet.control.trigger("triage", &request, &ann()).await, Outcome::Busy);
    assert_eq!(fleet.control.jobs().await.unwrap().queues[0].waiting, 3);
}

#[tokio::test]
async fn an_operator_scales_an_agent_up_down_and_back_whatever_its_settings_say() {
    let fleet = fleet();
    for _ in 0..3 {
        fleet.run().await;
    }
    assert_eq!(fleet.scale(Some(3)).await, "scaled triage to 3; its settings say 2");
    assert_eq!(fleet.scale(Some(3)).await, "triage was scaled to 3 already");
    let runs = [fleet.try_claim().await, fleet.try_claim().await, fleet.try_claim().await];
    assert!(runs.iter().all(Option::is_some), "three run at once");
    let shown = fleet.control.agent("triage").await.unwrap().agent.status;
    let said = shown.scaled.unwrap();
    assert_eq!((shown.scale, said.default, said.reason.as_str()), (3, 2, "a rush, says ann"));
    fleet.scale(Some(0)).await;
    let said =
        refused(fleet.control.trigger("triage", &TriggerRequest::default(), &ann()).await, Outcome::Invalid);
    assert!(said.contains("scaled it to 0: a rush, says ann"), "{said}");
    assert_eq!(fleet.scale(None).await, "scaled triage to 2, as its settings say");
    fleet.run().await;
    assert!(fleet.try_claim().await.is_none(), "three run, and two may");
    fleet.end(runs[0].as_ref().unwrap(), End::Completed).await;
    fleet.end(runs[1].as_ref().unwrap(), End::Completed).await;
    assert!(fleet.try_claim().await.is_some());
    let kinds = Some("scale".to_owned());
    let rows = fleet.control.history(&HistoryQuery { kinds, ..HistoryQuery::default() }).await.unwrap().rows;
    let says: Vec<&str> = rows.iter().map(|row| row.says.as_str()).collect();
    assert_eq!(says.len(), 3, "{says:?}");
    let gone: bell_core::work::agent::AgentName = "gone".parse().unwrap();
    fleet.control.coord.scale(&gone, Some(1), "before it went").await.unwrap();
    let back = ScaleRequest { scale: None, reason: None, by: None };
    fleet.control.scale("gone", &back, &ann()).await.unwrap();
    refused(fleet.control.scale("gone", &back, &ann()).await, Outcome::NotFound);
    let most = ScaleRequest { scale: Some(4_001), reason: None, by: None };
    refused(fleet.control.scale("triage", &most, &ann()).await, Outcome::Invalid);
}

#[tokio::test]
async fn a_pause_says_who_and_why_until_it_is_resumed() {
    let fleet = fleet();
    fleet.run().await;
    let request = PauseRequest { reason: Some("lunch".to_owned()), by: Some("bob".to_owned()), agent: None };
    let who = Who::key("laptop");
    assert_eq!(fleet.control.pause(&request, &who).await.unwrap().message, "paused the fleet");
    assert_eq!(fleet.control.pause(&request, &who).await.unwrap().message, "the fleet was paused already");
    let status = fleet.control.status(&StatusQuery::default()).await.unwrap();
    assert_eq!(status.paused.as_deref(), Some("lunch, says bob (key laptop)"));
    assert!(fleet.try_claim().await.is_none());
    let message = fleet.control.resume(&ResumeRequest::default(), &who).await.unwrap().message;
    assert_eq!(message, "resumed the fleet");
    assert!(fleet.try_claim().await.is_some());
    for reason in ["", " ", &"x".repeat(501)] {
        let request = PauseRequest { reason: Some(reason.to_owned()), ..PauseRequest::default() };
        refused(fleet.control.pause(&request, &who).await, Outcome::Invalid);
    }
}

#[tokio::test]
async fn a_name_that_is_nobodys_is_not_paused_and_one_that_is_gone_can_be_resumed() {
    let fleet = fleet();
    let of = |agent: &str| PauseRequest { agent: Some(agent.to_owned()), ..PauseRequest::default() };
    let again = |agent: &str| ResumeRequest { agent: Some(agent.to_owned()), ..ResumeRequest::default() };
    refused(fleet.control.pause(&of("triag"), &ann()).await, Outcome::NotFound);
    refused(fleet.control.resume(&again("triag"), &ann()).await, Outcome::NotFound);
    assert!(fleet.control.coord.pool().await.unwrap().paused_agents.is_empty());

    let gone: bell_core::work::agent::AgentName = "gone".parse().unwrap();
    let extent = bell_core::work::pause::Extent::Agent(gone);
    fleet.control.coord.pause(&extent, "before it went").await.unwrap();
    fleet.control.resume(&again("gone"), &ann()).await.unwrap();
    refused(fleet.control.resume(&again("gone"), &ann()).await, Outcome::NotFound);

    std::fs::create_dir_all(fleet.control.folder.path().join("agents/broken")).unwrap();
    fleet.control.pause(&of("broken"), &ann()).await.unwrap();
}

#[tokio::test]
async fn a_run_is_shown_killed_and_listed() {
    let fleet = fleet();
    let job = fleet.run().await;
    let claim = fleet.try_claim().await.unwrap();
    let run = claim.run.to_string();
    let shown = fleet.control.run(&run).await.unwrap();
    assert_eq!((shown.job.as_str(), shown.alive, shown.attempt), (job.as_str(), true, 1));
    let request = KillRequest { reason: Some("circles".to_owned()), by: None };
    fleet.control.kill(&run, &request, &ann()).await.unwrap();
    assert_eq!(fleet.control.run(&run).await.unwrap().kill.as_deref(), Some("circles, says ann"));
    let end = End::Killed { reason: "circles, says ann".to_owned() };
    fleet.control.coord.finish(&claim.run, &end).await.unwrap();
    refused(fleet.control.kill(&run, &request, &ann()).await, Outcome::NotHeld);
    for name in ["triage-none", "../pool", ""] {
        refused(fleet.control.kill(name, &request, &ann()).await, Outcome::NotFound);
        refused(fleet.control.run(name).await, Outcome::NotFound);
    }
    let of = |agent: &str| RunsQuery { agent: Some(agent.to_owned()), limit: None };
    let runs = fleet.control.runs(&of("triage")).await.unwrap().runs;
    assert_eq!((runs.len(), &runs[0].end), (1, &Some(end)));
    assert!(fleet.control.runs(&of("idle")).await.unwrap().runs.is_empty());
}

#[tokio::test]
async fn a_job_is_waited_for_cancelled_cleared_and_replayed() {
    let fleet = fleet();
    let job = fleet.run().await;
    let waiting = fleet.control.job(&job, Duration::from_millis(1)).await.unwrap();
    assert_eq!((waiting.outcome, waiting.state), (Outcome::Waiting, JobState::Queued));
    let claim = fleet.try_claim().await.unwrap();
    let over = async { fleet.control.job(&job, Duration::from_secs(60)).await.unwrap() };
    let (over, ()) = tokio::join!(over, fleet.end(&claim, End::Failed { code: 3 }));
    assert_eq!((over.outcome, over.state), (Outcome::Listed, JobState::Over));
    let undone = fleet.control.undone(&UndoneQuery::default()).await.unwrap().undone;
    assert_eq!(undone[0].job.as_str(), job);
    refused(fleet.control.cancel(&job, &ann()).await, Outcome::Busy);
    fleet.control.replay(&job, &ann()).await.unwrap();
    fleet.control.cancel(&job, &ann()).await.unwrap();
    let message = fleet.control.clear("triage", &ann()).await.unwrap().message;
    assert!(message.starts_with("cleared 0 jobs of triage"), "{message}");
    refused(fleet.control.replay("none", &ann()).await, Outcome::NotFound);
}

#[tokio::test]
async fn history_goes_back_page_by_page() {
    let fleet = fleet();
    let all = HistoryQuery { since_ms: Some(0), ..HistoryQuery::default() };
    for _ in 0..3 {
        fleet.run().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let last = HistoryQuery { limit: Some(2), ..all.clone() };
    let last = fleet.control.history(&last).await.unwrap();
    assert_eq!((last.rows.len(), last.more), (2, true));
    let before = HistoryQuery { before_ms: Some(last.rows[0].at_ms), ..all.clone() };
    let before = fleet.control.history(&before).await.unwrap();
    assert_eq!((before.rows.len(), before.more), (1, false));
    let wrong = HistoryQuery { kinds: Some("skip,nonsense".to_owned()), ..all };
    refused(fleet.control.history(&wrong).await, Outcome::Invalid);
}

#[tokio::test]
async fn a_lock_is_listed_shown_explained_and_broken_with_who_and_why_on_record() {
    let fleet = fleet();
    let session = Session::new(Identity::default(), Keep::Attended).unwrap();
    let key = Key::parse("deploy://api").unwrap();
    fleet.control.coord.acquire(&session, &Ask::new(key.clone())).await.unwrap();
    assert_eq!(fleet.control.list_locks("deploy:", None).await.unwrap().locks.len(), 1);
    assert_eq!(fleet.control.show_lock("deploy://api").await.unwrap().outcome, Outcome::Held);
    let request = |reason: &str| BreakRequest { key: key.to_string(), reason: reason.to_owned(), by: None };
    refused(fleet.control.break_lock(&request(" "), &ann()).await, Outcome::Invalid);
    let broken = fleet.control.break_lock(&request("stuck"), &Who::key("laptop")).await.unwrap();
    assert_eq!(broken.outcome, Outcome::Broken);
    refused(fleet.control.break_lock(&request("stuck"), &ann()).await, Outcome::NotHeld);
    let breakings = fleet.control.locks.breakings(&key).await.unwrap();
    assert_eq!((breakings[0].by.as_str(), breakings[0].reason.as_str()), ("key laptop", "stuck"));
    let why = fleet.control.why("deploy://api").await.unwrap();
    assert_eq!((why.answer.name.as_str(), why.store.as_deref()), ("deploy://api", Some("memory:")));
}

#[tokio::test]
async fn why_answers_about_one_thing_and_says_what_is_near() {
    let fleet = fleet();
    fleet.scale(Some(0)).await;
    let why = fleet.control.why("triage").await.unwrap();
    assert_eq!(why.answer.says, "triage is disabled: its scale is 0");
    assert_eq!(why.answer.next[0], "have as many run as its settings say: bell scale triage default");
    let said = refused(fleet.control.why("triagee").await, Outcome::NotFound);
    assert!(said.ends_with("did you mean triage?"), "{said}");
}

#[tokio::test]
async fn an_answer_has_no_more_deliveries_than_the_most_whatever_is_asked_for() {
    let fleet = fleet();
    for number in 0..=DELIVERIES_MAX {
        let delivery = Delivery {
            key: DeliveryKey { source: "hub".into(), id: format!("d-{number}").into() },
            at: wall_now(),
            event: "issues".to_owned(),
            action: None,
            place: None,
            agents: Vec::new(),
            unlisted: 0,
            replay: None,
            headers: Vec::new(),
            bytes: 2,
            body: None,
        };
        let receipt = Receipt { delivery: Arc::new(delivery), offers: Vec::new() };
        fleet.control.coord.receive(receipt).await.unwrap();
    }
    let query = |limit, after| DeliveriesQuery { limit, after, ..DeliveriesQuery::default() };
    let first = fleet.control.deliveries(&query(Some(u32::MAX), None)).await.unwrap();
    assert_eq!(first.deliveries.len(), 1_000);
    let rest = fleet.control.deliveries(&query(None, first.next)).await.unwrap();
    assert_eq!(rest.deliveries.len(), 1, "nothing is passed over");
}
