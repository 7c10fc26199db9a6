//! `bell drill`: holders that sleep too long or die, on this store.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::lock::Ttl;
use bell_verify::drill::{self, Drill, Halt, Report, Step, Who};

use crate::answer::Refusal;
use crate::cli::{DrillArgs, DrillWorkerArgs};
use crate::interrupt::Interrupts;
use crate::open::{Access, Scene};
use crate::run::start::this_program;
use crate::say::{Format, Say, can_show_progress};
use crate::span;

/// A drill waits for leases to run out.
const LONGEST_TTL: Duration = Duration::from_secs(60);

/// Plays the drill. Answers the exit code.
pub(crate) async fn drill(scene: &Scene, args: &DrillArgs) -> Result<u8, Refusal> {
    let ttl = ttl(&args.ttl)?;
    let opened = scene.open(Access::Write).await?;
    let mut interrupts = Interrupts::listen()?;
    let url = scene.url().to_owned();
    let program = move |scope: &str| worker(&url, scope);
    let drill = Drill::new(Arc::clone(opened.coord.store()), args.rounds, ttl, program);
    let told = Telling { say: scene.say.clone(), rounds: args.rounds, round: 0 };
    let played = tokio::select! {
        played = drill.run(told.teller()) => played,
        stop = interrupts.next() => {
            clean(scene, &drill).await;
            return Ok(stop.exit());
        }
    };
    clean(scene, &drill).await;
    let report = played.map_err(|halt| refusal(&halt))?;
    let _ = scene.say.answer(&report, || summary(&report));
    Ok(if report.passed { exit::OK } else { exit::CONFLICT })
}

/// One of the processes of the drill.
pub(crate) async fn drill_worker(scene: &Scene, args: &DrillWorkerArgs) -> Result<u8, Refusal> {
    let opened = scene.open(Access::Write).await?;
    let store = opened.coord.store();
    let worked = drill::work(store, &args.scope, &drill::guard(store, &args.scope)).await;
    worked.map(|()| exit::OK).map_err(|halt| refusal(&halt))
}

/// In a group of its own, so that an interrupt from the keyboard reaches only the drill, which sees to the rest.
fn worker(url: &str, scope: &str) -> Command {
    let mut program = this_program(&["__drill-worker", "--scope", scope]);
    // Everybody may read the arguments of a process; the URL may have a password.
    program.env("BELL_STORE", url).process_group(0);
    program
}

fn ttl(text: &str) -> Result<Ttl, Refusal> {
    let ttl = span::ttl(Some(text), Ttl::DEFAULT)?;
    if ttl.length() <= LONGEST_TTL {
        return Ok(ttl);
    }
    Err(Refusal::invalid(
        format!("could not drill with a ttl of {text}: every round waits for it to run out"),
        "Name a ttl between 1s and 60s.",
    ))
}

async fn clean(scene: &Scene, drill: &Drill) {
    if let Err(halt) = drill.clean().await {
        scene.say.talk(&format!("bell: could not {halt}"));
        scene.say.talk(&format!("hint: {}", halt.advice()));
    }
}

fn refusal(halt: &Halt) -> Refusal {
    Refusal::new(Outcome::Unavailable, format!("could not {halt}"), halt.advice())
}

/// Tells the steps as they happen: as lines of the answer, or, where the answer is one object, as talk.
struct Telling {
    say: Say,
    rounds: u32,
    round: u32,
}

impl Telling {
    fn teller(mut self) -> impl FnMut(&Step) {
        move |step| {
            let is_new = self.round != step.round;
            self.round = step.round;
            match self.say.format() {
                Format::Plain => {
                    let heading = format!("round {} of {}", step.round, self.rounds);
                    let lines = [is_new.then_some(heading), Some(line(step))];
                    let lines: Vec<String> = lines.into_iter().flatten().collect();
                    let _ = self.say.answer(&(), || lines.join("\n"));
                }
                Format::Json if is_new && can_show_progress() => {
                    self.say.talk(&format!("round {} of {}", step.round, self.rounds));
                }
                Format::Json => {}
            }
        }
    }
}

fn line(step: &Step) -> String {
    let who = match step.who {
        Who::A => "A",
        Who::B => "B",
        Who::Drill => "drill",
    };
    let pid = step.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
    let fence = step.fence.map(|fence| format!(" (fence {fence})")).unwrap_or_default();
    let mark = if step.right { ' ' } else { '✗' };
    format!("{mark} {:>7} ms  {:12} {}{fence}", step.at_ms, format!("{who}{pid}"), step.what)
}

fn summary(report: &Report) -> String {
    let stale = format!("{} of {} stale writes got through", report.got_through, report.stale_writes);
    if report.passed {
        return stale;
    }
    let wrong = report.steps.iter().filter(|step| !step.right);
    let wrong: Vec<String> = wrong.map(|step| format!("round {}: {}", step.round, line(step))).collect();
    format!(
        "{stale}; this must not happen:\n{}\nnext: bell verify, and tell us what it says",
        wrong.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_and_a_wrong_one_is_marked() {
        let step = Step {
            round: 1,
            at_ms: 12,
            who: Who::A,
            pid: Some(7),
            fence: None,
            what: "writes".to_owned(),
            right: false,
        };
        assert_eq!(line(&step), "✗      12 ms  A 7          writes");
        let report = Report { passed: false, rounds: 1, stale_writes: 2, got_through: 1, steps: vec![step] };
        assert!(
            summary(&report)
                .starts_with("1 of 2 stale writes got through; this must not happen:\nround 1: ✗")
        );
    }
}
