//! `bell store`: what the store promises, and what an operator does for it.

use std::path::Path;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_control::Who;
use bell_coord::Denied;
use bell_coord::audit::act;
use bell_locks::open::redacted;
use bell_project::stores::{ChosenStore, Stores};
use bell_store::info::{FailOver, Push};
use bell_store::{Info, Kind, Txn};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::StoreCommand;
use crate::fleet::Reach;
use crate::open::{Access, Scene};
use crate::project::Located;
use crate::say::Say;

/// What `raise-epoch` did or would do.
#[derive(Serialize)]
struct EpochAnswer {
    outcome: Outcome,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
}

#[derive(Serialize)]
struct InfoAnswer<'a> {
    outcome: Outcome,
    /// What named the store: `flag`, `environment`, `settings`, or none of them, and it is of the `project` or the `user`.
    chosen_by: &'static str,
    /// The project, unless there is none or the command line names the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a Path>,
    /// The store of the locks, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    locks: Option<String>,
    /// Whether there is a store: looking creates none.
    exists: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'a Info>,
}

/// Carries out a command. Answers the exit code.
pub(crate) async fn store(say: &Say, reach: &Reach, command: &StoreCommand) -> Result<u8, Refusal> {
    let Located { project, stores: Stores { work, locks } } = reach.start.stores(reach.store.as_ref())?;
    let locks = (locks != work).then_some(locks);
    // A store of the project may be named on the command line too.
    let used_by = project.clone().or_else(|| reach.start.find().ok().flatten());
    let scene = Scene::new(say, work, project);
    let done = match command {
        StoreCommand::Info => info(&scene, locks.as_ref()).await,
        StoreCommand::RaiseEpoch { yes: false } => rehearse_raise(&scene).await,
        StoreCommand::RaiseEpoch { yes: true } => raise_epoch(&scene, used_by.as_deref()).await,
    };
    Ok(done.unwrap_or_else(|refusal| scene.say.refuse(&refusal)))
}

async fn info(scene: &Scene, locks: Option<&ChosenStore>) -> Result<u8, Refusal> {
    let opened = if scene.exists().await? { Some(scene.open_any(Access::Read).await?) } else { None };
    let info = opened.as_ref().map(|opened| opened.coord.store().info());
    let answer = InfoAnswer {
        outcome: Outcome::Listed,
        chosen_by: scene.chosen().origin.word(),
        project: scene.project(),
        locks: locks.map(|locks| redacted(&locks.url)),
        exists: opened.is_some(),
        info,
    };
    let _ = scene.say.answer(&answer, || {
        let mut lines = source_lines(scene, opened.as_ref().map(|opened| opened.name.as_str()), locks);
        lines.extend(info.map(promise_lines).unwrap_or_default());
        lines.join("\n")
    });
    Ok(exit::OK)
}

fn source_lines(scene: &Scene, name: Option<&str>, locks: Option<&ChosenStore>) -> Vec<String> {
    let missing = || format!("{} (not there)", redacted(scene.url()));
    let locks = locks.map(|locks| format!("{} ({})", redacted(&locks.url), locks.origin.text()));
    let rows = [
        ("store", Some(name.map_or_else(missing, str::to_owned))),
        ("it is", Some(scene.chosen().origin.text().to_owned())),
        ("project", scene.project().map(|project| project.display().to_string())),
        ("locks", locks),
    ];
    rows.into_iter().filter_map(|(what, is)| Some(row(what, &is?))).collect()
}

async fn rehearse_raise(scene: &Scene) -> Result<u8, Refusal> {
    bell_locks::open::check_epoch(scene.url())?;
    let opened = scene.open_existing().await?;
    // A transaction that writes nothing only asks whether one that writes would be taken.
    let message = match opened.coord.store().commit(Txn::default()).await {
        Ok(_) => {
            "nothing was done: the store takes commits, and its epoch need not be raised, unless it was just \
                  brought back from a backup"
                .to_owned()
        }
        Err(error) if error.kind() == Kind::Rewound => format!("nothing was done: could not {error}"),
        Err(error) => return Err(Denied::Unavailable(error).into()),
    };
    let answer = EpochAnswer { outcome: Outcome::Listed, message, revision: None };
    let _ = scene.say.answer(&answer, || format!("{}\nrepeat with --yes to raise the epoch", answer.message));
    Ok(exit::OK)
}

async fn raise_epoch(scene: &Scene, used_by: Option<&Path>) -> Result<u8, Refusal> {
    if let Some(project) = used_by
        && scene.is_gone(project)?
    {
        // A new one in its place, which grants nothing before its epoch is raised.
        drop(bell_locks::open::open_store(scene.url()).await?);
    }
    let revision = bell_locks::open::raise_epoch(scene.url()).await?;
    let message = format!("raised the epoch: fences go on above {revision}");
    // Only now: a store that may have lost something takes no commits before.
    if let Err(refusal) = record(scene, revision).await {
        let why = refusal.0.message.unwrap_or_default();
        scene.say.talk(&format!("bell: the epoch is raised, but that is not in the audit log: {why}"));
    }
    let answer = EpochAnswer { outcome: Outcome::Written, message, revision: Some(revision) };
    let _ = scene.say.answer(&answer, || answer.message.clone());
    Ok(exit::OK)
}

/// Puts it on record, in the store that it was done to.
async fn record(scene: &Scene, revision: u64) -> Result<(), Refusal> {
    let who = Who::local(crate::lock::user()).recorded(None);
    let opened = scene.open_existing().await?;
    let act = act(&who, "raise-epoch", &opened.name).because(format!("fences go on above {revision}"));
    Ok(opened.coord.audit(act).await?)
}

fn promise_lines(info: &Info) -> Vec<String> {
    let push = match info.push {
        Push::Push => "told at once".to_owned(),
        Push::Poll { interval_ms } => format!("looked for every {interval_ms} ms"),
    };
    let fail_over = match info.fail_over {
        FailOver::None => "nothing takes over",
        FailOver::Kept => "what was answered is kept",
        FailOver::Loses => "what was answered may be lost",
    };
    let death = if info.notices_death { "noticed at once" } else { "noticed when the lease runs out" };
    let rows = [
        ("shared by", word(info.scope)),
        ("commits survive", word(info.durability)),
        ("on a fail-over", fail_over.to_owned()),
        ("clock", word(info.clock)),
        ("changes are", push),
        ("a dead process is", death.to_owned()),
    ];
    let mut lines: Vec<String> = rows.iter().map(|(what, is)| row(what, is)).collect();
    lines.extend(info.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines
}

fn row(what: &str, is: &str) -> String {
    format!("{what:18} {is}")
}

/// The word that JSON uses.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
