//! `bell verify`: what the store can promise, proved on the store itself.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_project::stores::{ChosenStore, Origin};
use bell_verify::peer::PeerSetting;
use bell_verify::{BuiltIn, CHECKS, Effort, Event, Program, Report, Setting, Strictness};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::VerifyArgs;
use crate::fleet::Reach;
use crate::interrupt::{Interrupts, Stop};
use crate::open::Scene;
use crate::project::{Located, here};
use crate::run::start::this_program;
use crate::say::Say;
use crate::span;

/// Less than this is no time for anything.
const LEAST: Duration = Duration::from_secs(5);
/// As long as a thorough run of a patient operator.
const MOST: Duration = Duration::from_secs(3_600);

/// A check, for those who choose among them.
#[derive(Serialize)]
struct Listed {
    check: &'static str,
    rules: Vec<String>,
    proves: &'static str,
}

#[derive(Serialize)]
struct List {
    outcome: Outcome,
    checks: Vec<Listed>,
}

/// Runs the checks. Answers the exit code.
pub(crate) async fn verify(say: &Say, reach: &Reach, args: &VerifyArgs) -> u8 {
    if args.list {
        return list(say);
    }
    match chosen(say, reach, args).await {
        Ok(scene) => {
            let done = if args.peer { with_peer(&scene, args).await } else { alone(&scene, args).await };
            done.unwrap_or_else(|refusal| scene.say.refuse(&refusal))
        }
        Err(refusal) => say.refuse(&refusal),
    }
}

/// The store that is named here, else the one that every command uses.
async fn chosen(say: &Say, reach: &Reach, args: &VerifyArgs) -> Result<Scene, Refusal> {
    if let Some(url) = &args.url {
        let named = ChosenStore { url: url.clone(), origin: Origin::Flag };
        return Ok(Scene::new(say, here(&named), None));
    }
    let Located { project, stores } = reach.start.stores(reach.store.as_ref())?;
    let scene = Scene::new(say, stores.work, project);
    scene.prepare().await?;
    Ok(scene)
}

async fn alone(scene: &Scene, args: &VerifyArgs) -> Result<u8, Refusal> {
    let effort = if args.thorough { Effort::Thorough } else { Effort::Usual };
    let setting = Setting {
        url: known_url(scene)?,
        open: Arc::new(BuiltIn),
        program: program(),
        effort,
        limit: limit(args.seconds, effort)?,
        only: known(&args.only)?,
    };
    let mut interrupts = Interrupts::listen()?;
    let mut stopped: Option<Stop> = None;
    let interrupted = async { stopped = Some(interrupts.next().await) };
    let tell = |event: Event<'_>| show(&scene.say, &event);
    let report = bell_verify::verify(setting, &tell, interrupted).await?;
    Ok(answer(scene, args, &report, stopped))
}

async fn with_peer(scene: &Scene, args: &VerifyArgs) -> Result<u8, Refusal> {
    let wait = span::wait(Some(&args.wait), "--wait", Duration::ZERO)?;
    let setting = PeerSetting { url: known_url(scene)?, open: Arc::new(BuiltIn), program: program(), wait };
    let mut interrupts = Interrupts::listen()?;
    let mut stopped: Option<Stop> = None;
    let interrupted = async { stopped = Some(interrupts.next().await) };
    let tell = |event: Event<'_>| show(&scene.say, &event);
    match bell_verify::peer::with_peer(setting, &tell, interrupted).await? {
        Some(report) => Ok(answer(scene, args, &report, stopped)),
        None => Err(Refusal::new(
            Outcome::TimedOut,
            format!("could not find another machine in {}", span::words(wait)),
            "Start bell verify --peer on the other machine too, with a URL of the same store, or wait longer with --wait.",
        )),
    }
}

/// How the other processes of a run are started.
fn program() -> Program {
    Program::new(|| this_program(&["__verify-worker"]))
}

fn answer(scene: &Scene, args: &VerifyArgs, report: &Report, stopped: Option<Stop>) -> u8 {
    let _ = scene.say.answer(report, || report.lines());
    let strictness = if args.strict { Strictness::NoWarnings } else { Strictness::Usual };
    stopped.filter(|_| report.interrupted).map_or_else(|| report.exit(strictness), Stop::exit)
}

/// What happens, as it happens: one line for each check.
fn show(say: &Say, event: &Event<'_>) {
    match event {
        Event::Leftovers(count) => say.talk(&format!("removed {count} records that a killed run had left")),
        Event::Waiting(wait) => {
            say.talk(&format!(
                "waiting up to {} for bell verify --peer on another machine",
                span::words(*wait)
            ));
        }
        Event::Began(_) => {}
        Event::Ended(finding) => {
            let seconds = Duration::from_millis(finding.took_ms).as_secs_f64();
            say.talk(&format!("{:9} {} ({seconds:.1} s)", finding.verdict, finding.check));
        }
    }
    let _ = std::io::stderr().flush();
}

fn list(say: &Say) -> u8 {
    let listed = |check: &'static bell_verify::Check| Listed {
        check: check.name,
        rules: check.rule_names(),
        proves: check.proves,
    };
    let checks: Vec<Listed> = CHECKS.iter().map(listed).collect();
    let answer = List { outcome: Outcome::Listed, checks };
    let line =
        |listed: &Listed| format!("{:16} {:11} {}", listed.check, listed.rules.join(" "), listed.proves);
    let _ = say.answer(&answer, || answer.checks.iter().map(line).collect::<Vec<_>>().join("\n"));
    exit::OK
}

/// A URL at all: anything else would be taken for the name of a scheme.
fn known_url(scene: &Scene) -> Result<String, Refusal> {
    let url = scene.url();
    if url.contains(':') {
        return Ok(url.to_owned());
    }
    Err(Refusal::invalid(
        format!("could not use {url:?}: it is not a store URL"),
        "Name a store like sqlite:PATH, file:FOLDER, redis://HOST, postgres://HOST/DATABASE or etcd://HOST/PREFIX.",
    ))
}

fn limit(seconds: Option<u64>, effort: Effort) -> Result<Duration, Refusal> {
    let limit = seconds.map_or(effort.limit(), Duration::from_secs);
    if (LEAST..=MOST).contains(&limit) {
        return Ok(limit);
    }
    let (least, most) = (LEAST.as_secs(), MOST.as_secs());
    Err(Refusal::invalid(
        format!("could not use --seconds {}: it must be between {least} and {most}", limit.as_secs()),
        "Leave it out for a minute, or use --thorough for ten.",
    ))
}

fn known(names: &[String]) -> Result<Vec<String>, Refusal> {
    match names.iter().find(|name| CHECKS.iter().all(|check| check.name != name.as_str())) {
        None => Ok(names.to_vec()),
        Some(unknown) => Err(Refusal::invalid(
            format!("could not find a check called {unknown:?}"),
            "Choose from those that bell verify --list shows.",
        )),
    }
}
