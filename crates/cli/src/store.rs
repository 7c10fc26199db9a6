//! `bell store`: what the store promises, and what an operator does for it.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_control::Who;
use bell_coord::Denied;
use bell_coord::audit::act;
use bell_store::info::{FailOver, Push};
use bell_store::{Info, Kind, Txn};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::StoreCommand;
use crate::open::Scene;

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
    info: &'a Info,
}

/// Carries out a command. Answers the exit code.
pub(crate) async fn store(scene: &Scene, command: &StoreCommand) -> Result<u8, Refusal> {
    match command {
        StoreCommand::Info => info(scene).await,
        StoreCommand::RaiseEpoch { yes: false } => rehearse_raise(scene).await,
        StoreCommand::RaiseEpoch { yes: true } => raise_epoch(scene).await,
    }
}

async fn info(scene: &Scene) -> Result<u8, Refusal> {
    let opened = scene.open_any().await?;
    let info = opened.coord.store().info();
    let answer = InfoAnswer { outcome: Outcome::Listed, info };
    let _ = scene.say.answer(&answer, || lines(&opened.name, info));
    Ok(exit::OK)
}

async fn rehearse_raise(scene: &Scene) -> Result<u8, Refusal> {
    bell_locks::open::check_epoch(scene.url())?;
    let opened = scene.open_any().await?;
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

async fn raise_epoch(scene: &Scene) -> Result<u8, Refusal> {
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
    let opened = scene.open_any().await?;
    let act = act(&who, "raise-epoch", &opened.name).because(format!("fences go on above {revision}"));
    Ok(opened.coord.audit(act).await?)
}

fn lines(name: &str, info: &Info) -> String {
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
        ("store", name.to_owned()),
        ("shared by", word(info.scope)),
        ("commits survive", word(info.durability)),
        ("on a fail-over", fail_over.to_owned()),
        ("clock", word(info.clock)),
        ("changes are", push),
        ("a dead process is", death.to_owned()),
    ];
    let mut lines: Vec<String> = rows.iter().map(|(what, is)| format!("{what:18} {is}")).collect();
    lines.extend(info.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n")
}

/// The word that JSON uses.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
