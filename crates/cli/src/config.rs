//! `bell config`: what is set, where it comes from, and what could be set.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_control::known;
use bell_project::capacity::Capacity;
use bell_project::effective::{self, Row};
use bell_project::load::Loaded;
use bell_project::nearest::nearest;
use bell_project::schema;
use serde::Serialize;
use serde_json::Value;

use crate::answer::Refusal;
use crate::check::variable;
use crate::cli::{ConfigCommand, ShowConfigArgs};
use crate::project::{Start, open_folder};
use crate::say::{Format, Say};

#[derive(Serialize)]
struct Shown<'a> {
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    settings: &'a [Row],
}

/// Carries out a command. Answers the exit code.
pub(crate) fn config(say: &Say, start: &Start, command: &ConfigCommand) -> Result<u8, Refusal> {
    match command {
        ConfigCommand::Show(args) => show(say, start, args),
        ConfigCommand::Schema { agent } => {
            let schema = if *agent { schema::agent() } else { schema::project() };
            let _ = say.answer(&schema, || format!("{schema:#}"));
            Ok(exit::OK)
        }
    }
}

fn show(say: &Say, start: &Start, args: &ShowConfigArgs) -> Result<u8, Refusal> {
    let folder = open_folder(&start.project_or_folder()?)?;
    let loaded = known::load(&folder);
    let rows = match &args.agent {
        None => effective::project(&folder, &loaded, &variable),
        Some(name) => {
            let agent = loaded.agents.values().find(|agent| agent.name.as_str() == name);
            effective::agent(
                &folder,
                agent.ok_or_else(|| no_agent(&loaded, name))?,
                Capacity::of_this_machine(),
                &variable,
            )
        }
    };
    let answer = Shown { outcome: Outcome::Listed, agent: args.agent.as_deref(), settings: &rows };
    let _ = say.answer(&answer, || lines(&rows));
    if loaded.has_errors() && say.format() == Format::Plain {
        say.talk(
            "bell: something in this project is wrong, and has its default here; look at it with bell check",
        );
    }
    Ok(exit::OK)
}

fn no_agent(loaded: &Loaded, name: &str) -> Refusal {
    let meant = nearest(name, loaded.agents.keys().map(|name| name.as_str()));
    let hint = match meant {
        Some(meant) => format!("Did you mean {meant}?"),
        None => "Look at the agents, and at those that can't be read, with bell check.".to_owned(),
    };
    Refusal::new(Outcome::NotFound, format!("could not find an agent {name:?} that can be read"), hint)
}

fn lines(rows: &[Row]) -> String {
    let text = |value: &Value| match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let line = |row: &Row| format!("{:width$}  {}  ({})", row.key, text(&row.value), row.origin);
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
