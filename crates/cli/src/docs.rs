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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;

    /// The pages that people follow when something is wrong.
    fn runbook() -> Vec<(PathBuf, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbook");
        let pages = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
    }

    /// The words of a command, as a shell has them: one in quotes is one.
    fn words(command: &str) -> Vec<String> {
        let parts = command.split('\'').enumerate();
        let split = |(place, part): (usize, &str)| -> Vec<String> {
            if place % 2 == 1 {
                vec![part.to_owned()]
            } else {
                part.split_whitespace().map(str::to_owned).collect()
            }
        };
        parts.flat_map(split).collect()
    }

    /// Lines of console blocks, which must be whole, and commands that a sentence names.
    fn commands(page: &str) -> (Vec<&str>, Vec<&str>) {
        let whole = page.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        let named = page.lines().filter(|line| !line.starts_with("$ ") && !line.starts_with("```"));
        (whole, named.flat_map(|line| line.split('`').skip(1).step_by(2)).collect())
    }

    #[test]
    fn every_command_of_the_runbook_can_be_given() {
        let mut count = 0;
        for (path, page) in runbook() {
            let (whole, named) = commands(&page);
            let is_ours = |command: &&&str| command.split(' ').next() == Some("bell");
            for command in whole.iter().chain(&named).filter(is_ours) {
                count += 1;
                let Err(error) = Cli::try_parse_from(words(command)) else { continue };
                // A sentence may name a command without everything that it takes.
                let is_named = named.contains(command)
                    && matches!(
                        error.kind(),
                        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand
                    );
                assert!(is_named, "{}: {command}: {error}", path.display());
            }
        }
        assert!(count > 60, "looked in the wrong place: {count}");
    }
}
