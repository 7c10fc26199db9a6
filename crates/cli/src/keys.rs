//! `bell keys`: who may talk to the gateway. All of it goes through the store, so it counts on every node.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_api::rfc3339::rfc3339;
use bell_coord::audit::act;
use bell_coord::keys::{KeyName, Role};
use bell_core::audit::Who;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::{AddKeyArgs, KeyRole, KeysCommand};
use crate::fleet::{Reach, open_work};
use crate::open::Access;
use crate::say::{Format, Say};

#[derive(Serialize)]
struct Made<'a> {
    outcome: Outcome,
    name: &'a KeyName,
    role: Role,
    /// Shown this once.
    key: String,
}

#[derive(Serialize)]
struct Keys {
    outcome: Outcome,
    keys: Vec<Key>,
}

#[derive(Serialize)]
struct Key {
    name: KeyName,
    role: Role,
    made: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
}

#[derive(Serialize)]
struct Revoked {
    outcome: Outcome,
    name: KeyName,
}

/// Looks after keys. Answers the exit code.
pub(crate) async fn keys(say: &Say, reach: &Reach, command: &KeysCommand) -> Result<u8, Refusal> {
    match command {
        KeysCommand::Add(args) => add(say, reach, args).await,
        KeysCommand::List => {
            let known = open_work(reach, Access::Read).await?.keys().await?;
            let keys = known.into_iter().map(|key| Key {
                name: key.name,
                role: key.role,
                made: rfc3339(key.made_ms),
                revoked: key.revoked_ms.map(rfc3339),
            });
            let answer = Keys { outcome: Outcome::Listed, keys: keys.collect() };
            let _ = say.answer(&answer, || lines(&answer.keys));
            Ok(exit::OK)
        }
        KeysCommand::Revoke { name } => {
            let (name, coord) = (key_name(name)?, open_work(reach, Access::Read).await?);
            if !coord.acting(act(&who(), "keys revoke", &name)).revoke_key(&name).await? {
                return Err(Refusal::new(
                    Outcome::NotFound,
                    format!("could not revoke {name}: there is no such key, or it was revoked before"),
                    "bell keys list shows them.",
                ));
            }
            let answer = Revoked { outcome: Outcome::Ended, name };
            let _ = say.answer(&answer, || format!("revoked {}", answer.name));
            Ok(exit::OK)
        }
    }
}

async fn add(say: &Say, reach: &Reach, args: &AddKeyArgs) -> Result<u8, Refusal> {
    let (name, coord) = (key_name(&args.name)?, open_work(reach, Access::Write).await?);
    let role = match args.role {
        KeyRole::Read => Role::Read,
        KeyRole::Full => Role::Full,
    };
    let coord = coord.acting(act(&who(), "keys add", &name).because(format!("role {role}")));
    let Some(key) = coord.add_key(&name, role).await? else {
        return Err(Refusal::new(
            Outcome::Busy,
            format!("could not make the key {name}: there is or was one of that name"),
            "Use another name.",
        ));
    };
    let answer = Made { outcome: Outcome::Written, name: &name, role, key: key.expose() };
    if say.format() == Format::Plain {
        say.talk(&format!("made the key {name} ({role}); it is shown this once:"));
    }
    let _ = say.answer(&answer, || answer.key.clone());
    Ok(exit::OK)
}

/// Whoever runs this command.
fn who() -> Who {
    bell_control::Who::local(crate::lock::user()).recorded(None)
}

fn key_name(given: &str) -> Result<KeyName, Refusal> {
    given.parse().map_err(|error| {
        Refusal::invalid(format!("could not use the name {given:?}: {error}"), "Choose another name.")
    })
}

fn lines(keys: &[Key]) -> String {
    if keys.is_empty() {
        return "there are no keys; bell up makes the first".to_owned();
    }
    let line = |key: &Key| {
        let revoked = key.revoked.as_ref().map(|at| format!(", revoked {at}")).unwrap_or_default();
        format!("{:32} {:4}  made {}{revoked}", key.name.as_str(), key.role.to_string(), key.made)
    };
    keys.iter().map(line).collect::<Vec<_>>().join("\n")
}
