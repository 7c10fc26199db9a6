//! `bell webhook`: what comes from outside. `test` is here: which agents want a payload, and why or why not.

mod told;

use std::io::Read;
use std::path::Path;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_control::hooks::{Unusable, hooks};
use bell_control::known;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::webhook::{Check, Context, Verdict};
use bell_core::work::agent::AgentName;
use bell_core::work::job::JobId;
use bell_intake::limits::BODY_BYTES_MAX;
use bell_intake::{Event, Fixture, Hooks, Refused, Source, Verified, rehearse};
use bell_project::load::Loaded;
use bell_project::nearest::nearest;
use serde::Serialize;
use serde_json::Value;

use crate::answer::Refusal;
use crate::check::variable;
use crate::cli::{WebhookCommand, WebhookTestArgs};
use crate::fleet::{Reach, open_work};
use crate::open::Access;
use crate::project::open_folder;
use crate::say::Say;

#[derive(Serialize)]
struct Answer<'a> {
    outcome: Outcome,
    source: &'a str,
    kind: &'a str,
    event: &'a str,
    matched: usize,
    agents: Vec<Wanted<'a>>,
    /// What an agent would get.
    context: &'a Context,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<Made>,
}

#[derive(Serialize)]
struct Wanted<'a> {
    agent: &'a AgentName,
    matched: bool,
    /// One filter that matches is enough.
    filters: Vec<Verdict<'a>>,
}

#[derive(Serialize)]
struct Made {
    agent: AgentName,
    /// None: its queue is full.
    job: Option<JobId>,
}

/// Does what was asked. Answers the exit code.
pub(crate) async fn webhook(say: &Say, reach: &Reach, command: &WebhookCommand) -> Result<u8, Refusal> {
    match command {
        WebhookCommand::Test(args) => test(say, reach, args).await,
        WebhookCommand::Ls(args) => told::list(say, reach, args).await,
        WebhookCommand::Show(args) => told::show(say, reach, args).await,
        WebhookCommand::Replay(args) => told::replay(say, reach, args).await,
    }
}

async fn test(say: &Say, reach: &Reach, args: &WebhookTestArgs) -> Result<u8, Refusal> {
    let folder = open_folder(&reach.start.project_or_folder()?)?;
    let loaded = known::load(&folder);
    let (hooks, unusable) = hooks(&folder, &loaded, &variable);
    let source = choose(&hooks, args.source.as_deref())?;
    warn(say, &loaded, source, &unusable);
    let fixture = fixture(&args.fixture, args.event.clone())?;
    // A new id for each rehearsal, so that one with --run makes jobs each time.
    let id = format!("test-{}", new_job());
    let event =
        match rehearse(source, fixture, &id, wall_now()).map_err(|refused| unread(&refused, source))? {
            Verified::Event(event) => *event,
            Verified::Question(answer) => return Ok(question(say, source, &answer.body)),
        };
    let jobs = if args.run { make(reach, &hooks, &event).await? } else { Vec::new() };
    let agents: Vec<Wanted<'_>> = hooks
        .look(&event)
        .into_iter()
        .map(|looked| Wanted {
            agent: &looked.subscriber.agent,
            matched: looked.matched(),
            filters: looked.verdicts,
        })
        .collect();
    let matched = agents.iter().filter(|agent| agent.matched).count();
    let outcome = if matched > 0 { Outcome::Listed } else { Outcome::NotFound };
    let context = event.context();
    let (kind, event) = (context.kind.as_str(), context.event.as_str());
    let answer = Answer { outcome, source: &source.name, kind, event, matched, agents, context, jobs };
    let _ = say.answer(&answer, || lines(&answer));
    Ok(if matched > 0 { exit::OK } else { exit::NOT_FOUND })
}

/// The source that is meant.
fn choose<'a>(hooks: &'a Hooks, given: Option<&str>) -> Result<&'a Source, Refusal> {
    let names = || hooks.sources.keys().map(String::as_str);
    let listed = || names().collect::<Vec<_>>().join(", ");
    match given {
        Some(name) => hooks.sources.get(name).ok_or_else(|| {
            let meant =
                nearest(name, names()).map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default();
            let message = format!("could not find a webhook source called {name:?}{meant}");
            Refusal::new(Outcome::NotFound, message, format!("config.toml has: {}.", listed()))
        }),
        None if hooks.sources.len() > 1 => Err(Refusal::invalid(
            "could not tell which source this is from: there are several",
            format!("Name one with --source: {}.", listed()),
        )),
        None => hooks.sources.values().next().ok_or_else(|| {
            let message = "could not find a webhook source in config.toml";
            Refusal::new(Outcome::NotFound, message, "Add [webhooks.github] with its type and secret.")
        }),
    }
}

/// What would keep a real delivery from coming this far.
fn warn(say: &Say, loaded: &Loaded, source: &Source, unusable: &[Unusable]) {
    for fault in unusable.iter().filter(|fault| fault.source == source.name) {
        say.talk(&format!("note: real deliveries are refused: could not {}", fault.why));
        say.talk(&format!("hint: {}", fault.hint));
    }
    if loaded.has_errors() {
        say.talk("note: something is wrong with the project; bell check says what");
    }
}

/// Reads a payload: a body, or a table of headers and body as other tools record them.
fn fixture(path: &Path, event: Option<String>) -> Result<Fixture, Refusal> {
    let bytes = read(path).map_err(|error| {
        let message = format!("could not read {}: {error}", path.display());
        Refusal::invalid(message, "Name a file with the payload, or - for stdin.")
    })?;
    let body = |body: &Value| match body {
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    };
    Ok(match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(table)) if table.len() == 2 && table.contains_key("body") => {
            let headers = table.get("headers").and_then(Value::as_object);
            let headers = headers
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
            Fixture {
                headers: headers.collect(),
                event,
                body: table.get("body").map(body).unwrap_or_default(),
            }
        }
        _ => Fixture { headers: form_header(&bytes), event, body: bytes },
    })
}

/// A payload that is no JSON at all is the form of a slash command.
fn form_header(bytes: &[u8]) -> Vec<(String, String)> {
    let is_form = !bytes.trim_ascii_start().starts_with(b"{") && bytes.contains(&b'=');
    let header = ("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned());
    if is_form { vec![header] } else { Vec::new() }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn unread(refused: &Refused, source: &Source) -> Refusal {
    let hint = match refused {
        Refused::Missing(name)
            if name.to_ascii_lowercase().contains("event") || name.contains("Resource") =>
        {
            format!("Say what kind of event it is with --event; {} says so in a header.", source.kind.word())
        }
        other => other.hint().to_owned(),
    };
    Refusal::invalid(format!("could not {refused}"), hint)
}

fn question(say: &Say, source: &Source, answer: &str) -> u8 {
    let shown = serde_json::json!({"outcome": Outcome::NotFound, "source": source.name, "question": true, "answer": answer});
    let _ = say.answer(&shown, || {
        format!("{} only asks whether somebody is there; it is answered with: {answer}", source.name)
    });
    exit::NOT_FOUND
}

async fn make(reach: &Reach, hooks: &Hooks, event: &Event) -> Result<Vec<Made>, Refusal> {
    let coord = open_work(reach, Access::Write).await?;
    let received = coord.receive(hooks.receipt(event, wall_now(), new_job)).await?;
    let made = received.jobs.into_iter().map(|(agent, job)| Made { agent, job: Some(job) });
    let full = received.full.into_iter().map(|agent| Made { agent, job: None });
    Ok(made.chain(full).collect())
}

fn lines(answer: &Answer<'_>) -> String {
    let context = answer.context;
    let action = context.action.as_deref().map(|action| format!("/{action}")).unwrap_or_default();
    let place = [context.repo.as_deref(), context.project.as_deref(), context.channel.as_deref()];
    let place = place.into_iter().flatten().next().map(|place| format!(" of {place}")).unwrap_or_default();
    let mut lines = vec![format!("{}: {}{action}{place}", answer.source, answer.event)];
    for agent in &answer.agents {
        lines.push(format!("{}: {}", agent.agent, yes_or_no(agent.matched)));
        for (at, filter) in agent.filters.iter().enumerate() {
            let reason = |check: &Check<'_>| format!("{} {check}", if check.passed { '+' } else { '-' });
            lines.extend(filter_lines(at, filter.matched, filter.checks.iter().map(reason)));
        }
    }
    for made in &answer.jobs {
        lines.push(match &made.job {
            Some(job) => format!("{}: accepted as job {job}", made.agent),
            None => format!("{}: refused, its queue is full", made.agent),
        });
    }
    lines.push(match answer.agents.len() {
        0 => format!("no agent listens to {}", answer.source),
        all => format!("{} of {all} agents that listen to {} want it", answer.matched, answer.source),
    });
    lines.join("\n")
}

/// What came of the filter at this place, and why.
fn filter_lines(at: usize, matched: bool, reasons: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines = vec![format!("  filter {}: {}", at + 1, yes_or_no(matched))];
    lines.extend(reasons.map(|reason| format!("    {reason}")));
    lines
}

fn yes_or_no(matched: bool) -> &'static str {
    if matched { "wants it" } else { "does not want it" }
}
