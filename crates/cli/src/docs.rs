//! Completions and manual pages, made from the command line's own description.

use std::io;
use std::path::Path;

use bell_api::exit;
use bell_api::outcome::Outcome;
use clap::CommandFactory;
use clap_complete::shells;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::{Cli, Shell};
use crate::say::Say;

#[derive(Serialize)]
struct Pages<'a> {
    outcome: Outcome,
    folder: &'a Path,
}

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Refusal> {
    let mut script = Vec::new();
    let mut command = Cli::command();
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, "bell", &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, "bell", &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, "bell", &mut script),
    }
    print(&script)
}

/// Prints the manual page, or writes the pages of every command into a folder.
pub(crate) fn man(say: &Say, out: Option<&Path>) -> Result<u8, Refusal> {
    let Some(folder) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(|error| failed(&error))?;
        return print(&page);
    };
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| failed(&error))?;
    let answer = Pages { outcome: Outcome::Written, folder };
    let _ = say.answer(&answer, || format!("wrote the manual pages into {}", folder.display()));
    Ok(exit::OK)
}

fn print(text: &[u8]) -> Result<u8, Refusal> {
    match io::Write::write_all(&mut io::stdout().lock(), text) {
        // A pager that was closed has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(&error)),
        _ => Ok(exit::OK),
    }
}

fn failed(error: &io::Error) -> Refusal {
    Refusal::unavailable(format!("could not write: {error}"), "Name a folder that can be written.")
}
