//! The project that a command is about, and the stores that it uses: the only place of this program that looks for either.
//!
//! What a project is stands in `bell_project::locate`, who may use it in `trust`, and which stores it has in `stores`. Here they
//! are asked in the command's own surroundings.

use std::env;
use std::path::{Path, PathBuf};

use bell_api::outcome::Outcome;
use bell_control::place::Place;
use bell_project::discover::AGENTS_FOLDER;
use bell_project::folder::Folder;
use bell_project::load::{CONFIG_FILE, Loaded, load_settings};
use bell_project::locate::{self, LocateError};
use bell_project::problem::Problem;
use bell_project::settings::ProjectSettings;
use bell_project::stores::{self, ChosenStore, Origin, Stores};
use bell_project::trust::{self, Distrust, Reason, SYSTEM_CONFIG, User};
use rustix::process::geteuid;

use crate::answer::Refusal;
use crate::cli::Globals;
use crate::open::state_folder;

/// Where a command starts to look for its project.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    folder: PathBuf,
    by: By,
}

/// What names that folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// The command line.
    Flag,
    /// `BELL_PROJECT`.
    Environment,
    /// Nothing: it is the current one.
    Here,
}

/// The stores of a command, and the project that has chosen them, if one has.
pub(crate) struct Located {
    pub(crate) project: Option<PathBuf>,
    pub(crate) stores: Stores,
}

/// A folder that may be used as a project.
struct Candidate {
    folder: PathBuf,
    is_project: bool,
}

impl Start {
    /// The folder that the command line names, else the environment, else the current one.
    pub(crate) fn of(globals: &Globals) -> Self {
        let named = |folder: PathBuf, by| Self { folder, by };
        match (&globals.project, env::var_os("BELL_PROJECT").filter(|folder| !folder.is_empty())) {
            (Some(folder), _) => named(folder.clone(), By::Flag),
            (None, Some(folder)) => named(folder.into(), By::Environment),
            (None, None) => named(PathBuf::from("."), By::Here),
        }
    }

    /// This folder instead, where the command line of one command names it.
    pub(crate) fn or_at(&self, folder: Option<&Path>) -> Self {
        match folder {
            Some(folder) => Self { folder: folder.to_owned(), by: By::Flag },
            None => self.clone(),
        }
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The nearest project upwards, if there is one. It is refused if this user can't trust it.
    pub(crate) fn find(&self) -> Result<Option<PathBuf>, Refusal> {
        if self.by == By::Here && env::current_dir().is_err() {
            // The current folder was removed: it is in no project.
            return Ok(None);
        }
        match locate::find(&self.folder).map_err(|error| self.not_found(&error))? {
            Some(project) => check(&project).map(|()| Some(project)),
            None if self.by == By::Here => Ok(None),
            // What was named is not to be replaced by something else that is near.
            None => Err(self.no_project()),
        }
    }

    /// The project.
    pub(crate) fn project(&self) -> Result<PathBuf, Refusal> {
        self.find()?.ok_or_else(|| self.no_project())
    }

    /// The project; else the folder itself, as the project that it may become.
    pub(crate) fn project_or_folder(&self) -> Result<PathBuf, Refusal> {
        let Candidate { folder, .. } = self.candidate()?;
        check(&folder).map(|()| folder)
    }

    /// The project; else the folder itself, if it has agents or settings.
    pub(crate) fn find_or_agents(&self) -> Result<Option<PathBuf>, Refusal> {
        let Candidate { folder, is_project } = self.candidate()?;
        if !is_project && !folder.join(CONFIG_FILE).exists() && !self.has_agents(&folder)? {
            return if self.by == By::Here { Ok(None) } else { Err(self.no_project()) };
        }
        check(&folder).map(|()| Some(folder))
    }

    /// The project that is to be run; else the folder, which becomes one. The agents of a project are run by one daemon.
    pub(crate) fn project_to_run(&self) -> Result<PathBuf, Refusal> {
        let Candidate { folder: project, is_project } = self.candidate()?;
        check(&project)?;
        let agents = project.join(AGENTS_FOLDER);
        if Place::of(&agents).occupant().is_some() {
            return Err(self.not_found(&LocateError::Nested { inner: agents, outer: project }));
        }
        let is_agents = project.file_name().is_some_and(|name| name == AGENTS_FOLDER);
        if !is_project && is_agents && self.has_agents(&project)? {
            return Err(Refusal::invalid(
                format!(
                    "could not run {} as a project: it is a folder for the agents of one",
                    project.display()
                ),
                "Run it in the folder above.",
            ));
        }
        self.refuse_other(&project)?;
        Ok(project)
    }

    /// A folder with agents that are not the project's may be meant to be a project of its own.
    fn refuse_other(&self, project: &Path) -> Result<(), Refusal> {
        let folder = self.canonical()?;
        let failed = |error: LocateError| self.not_found(&error);
        let agents = folder.join(AGENTS_FOLDER);
        if folder == project || !locate::has_agents(&agents).map_err(failed)? {
            return Ok(());
        }
        if locate::owner(&folder).map_err(failed)?.is_some() {
            return Ok(());
        }
        Err(Refusal::invalid(
            format!(
                "could not tell which project to run: {} has agents of its own, and the nearest project is {}",
                folder.display(),
                project.display()
            ),
            format!(
                "To make it a project, put a config.toml into it (an empty one will do); for the other one, use --project {}.",
                project.display()
            ),
        ))
    }

    /// The folder in which a project is to be begun. The environment does not say that: it is about a project that is there.
    pub(crate) fn new_project(&self, folder: Option<&Path>) -> PathBuf {
        match (folder, self.by) {
            (Some(folder), _) => folder.to_owned(),
            (None, By::Flag) => self.folder.clone(),
            (None, By::Environment | By::Here) => PathBuf::from("."),
        }
    }

    /// The stores for locks: also outside of a project, in the store of this user. A store that the command line names is used
    /// without looking for a project.
    pub(crate) fn stores(&self, named: Option<&ChosenStore>) -> Result<Located, Refusal> {
        if let Some(named) = named.filter(|named| named.origin == Origin::Flag) {
            return Ok(Located { project: None, stores: one(named.clone()) });
        }
        if let Some(project) = self.find()? {
            let settings = settings(&project)?;
            let stores = stores::resolve(named, &settings, &project);
            return Ok(Located { project: Some(project), stores });
        }
        let store = match named {
            Some(named) => here(named),
            None => ChosenStore { url: text(&stores::embedded(&state_folder()?))?, origin: Origin::User },
        };
        Ok(Located { project: None, stores: one(store) })
    }

    /// The project; else the folder itself. Whether it can be trusted is still to be checked.
    fn candidate(&self) -> Result<Candidate, Refusal> {
        match locate::find(&self.folder).map_err(|error| self.not_found(&error))? {
            Some(folder) => Ok(Candidate { folder, is_project: true }),
            None => Ok(Candidate { folder: self.canonical()?, is_project: false }),
        }
    }

    fn canonical(&self) -> Result<PathBuf, Refusal> {
        std::fs::canonicalize(&self.folder)
            .map_err(|error| self.not_found(&LocateError::Io { path: self.folder.clone(), error }))
    }

    fn has_agents(&self, folder: &Path) -> Result<bool, Refusal> {
        locate::has_agents(folder).map_err(|error| self.not_found(&error))
    }

    fn no_project(&self) -> Refusal {
        let place = match self.by {
            By::Flag => format!("{}", self.folder.display()),
            By::Environment => format!("{} (set by BELL_PROJECT)", self.folder.display()),
            By::Here => env::current_dir().map_or_else(|_| ".".to_owned(), |here| here.display().to_string()),
        };
        Refusal::new(
            Outcome::NotFound,
            format!("could not find a project in {place} or above it"),
            "Change to the folder of a project, or name one with --project or BELL_PROJECT; bell init creates one, and bell up \
             makes a folder of agents one. --url asks a daemon elsewhere.",
        )
    }

    fn not_found(&self, error: &LocateError) -> Refusal {
        let (outcome, hint) = match error {
            LocateError::Nested { inner, .. } => (
                Outcome::Invalid,
                format!(
                    "Earlier versions created it. If no daemon runs there, remove {}.",
                    inner.join(locate::STATE_FOLDER).display()
                ),
            ),
            LocateError::Io { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => (
                Outcome::Unauthorized,
                "Run it as a user who can read the folder, or name another project with --project, or a store with --store.".to_owned(),
            ),
            LocateError::Io { .. } | LocateError::NotText(_) => {
                (Outcome::Invalid, "Name the folder of a project, or run it there.".to_owned())
            }
        };
        Refusal::new(outcome, format!("could not open the project {}: {error}", self.folder.display()), hint)
    }
}

/// The stores of a project that is loaded. Settings that can't be used may name another store than the one that is left.
pub(crate) fn stores_of(
    project: &Path,
    loaded: &Loaded,
    named: Option<&ChosenStore>,
) -> Result<Stores, Refusal> {
    let stores = stores::resolve(named, &loaded.settings, project);
    let mut errors = loaded.settings_errors().peekable();
    if named.is_none() && errors.peek().is_some() {
        return Err(unusable_settings(project, errors));
    }
    Ok(stores)
}

/// Refuses to begin a project where its agents would be those of another one, or where this user could not trust it.
pub(crate) fn check_new(folder: &Path) -> Result<(), Refusal> {
    let Ok(folder) = std::fs::canonicalize(folder) else { return Ok(()) };
    check(&folder)?;
    let start = Start { folder, by: By::Flag };
    match locate::owner(&start.folder).map_err(|error| start.not_found(&error))? {
        None => Ok(()),
        Some(outer) => Err(Refusal::invalid(
            format!(
                "could not begin a project in {}: what is in it belongs to the project in {}",
                start.folder.display(),
                outer.display()
            ),
            "Name a folder that is outside of that project's agents.",
        )),
    }
}

/// The store that the caller named, on the command line or in the environment.
pub(crate) fn named(globals: &Globals) -> Option<ChosenStore> {
    let flag = globals.store.clone().filter(|url| !url.is_empty());
    if let Some(url) = flag {
        return Some(here(&ChosenStore { url, origin: Origin::Flag }));
    }
    let url = env::var("BELL_STORE").ok().filter(|url| !url.is_empty())?;
    Some(ChosenStore { url, origin: Origin::Environment })
}

/// Opens the folder of a project.
pub(crate) fn open_folder(path: &Path) -> Result<Folder, Refusal> {
    Folder::open(path).map_err(|error| {
        Refusal::invalid(
            format!("could not open the project {}: {error}", path.display()),
            "Name the folder of a project, or run it there.",
        )
    })
}

/// That a store can't be chosen, since the settings that may name it can't be used.
fn unusable_settings<'a>(project: &Path, problems: impl IntoIterator<Item = &'a Problem>) -> Refusal {
    // One line: a message can't hold line breaks.
    let why: Vec<String> = problems.into_iter().map(ToString::to_string).collect();
    Refusal::invalid(
        format!("could not choose a store for the project in {}: {}", project.display(), why.join("; ")),
        "Correct config.toml (bell check lists every error), or name the store with --store.",
    )
}

/// The settings of a project, for choosing its stores.
fn settings(project: &Path) -> Result<ProjectSettings, Refusal> {
    load_settings(&open_folder(project)?)
        .map_err(|problems| unusable_settings(project, problems.iter().filter(|problem| problem.is_error())))
}

fn one(store: ChosenStore) -> Stores {
    Stores { work: store.clone(), locks: store }
}

/// A store by a path that is relative to the current folder.
pub(crate) fn here(named: &ChosenStore) -> ChosenStore {
    let url = match env::current_dir() {
        Ok(here) => stores::absolute(&named.url, &here),
        Err(_) => named.url.clone(),
    };
    ChosenStore { url, origin: named.origin }
}

fn text(url: &str) -> Result<String, Refusal> {
    if !url.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(url.to_owned());
    }
    Err(Refusal::invalid(
        format!("could not name the store {url}: its path is not UTF-8"),
        "Name another store with --store or BELL_STORE.",
    ))
}

/// Who runs this command.
pub(crate) fn user() -> User {
    let sudo_uid = env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    User { uid: geteuid().as_raw(), sudo_uid }
}

/// Refuses a project that this user can't trust.
pub(crate) fn check(project: &Path) -> Result<(), Refusal> {
    let user = user();
    trust::check(project, user, &configs()).map_err(|distrust| refused(project, user, &distrust))
}

/// The settings that may list a project as safe: this user's, and the system's.
fn configs() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    user.map(|folder| folder.join("bell/config.toml")).into_iter().chain([SYSTEM_CONFIG.into()]).collect()
}

fn refused(project: &Path, user: User, distrust: &Distrust) -> Refusal {
    let Distrust { path, reason, ignored } = distrust;
    let ignored: Vec<String> = ignored.iter().map(|why| format!("; not used: {why}")).collect();
    let message = format!(
        "could not use the project in {}: {} {reason}{}",
        project.display(),
        path.display(),
        ignored.concat()
    );
    let Some(config) = configs().into_iter().next().filter(|_| distrust.can_be_listed()) else {
        let hint = match reason {
            Reason::NoFolder => {
                "Inside a run .bell is hidden: run the command outside. Otherwise move what is there away: bell up makes a new one."
            }
            _ => "Run it as a user who can read it, or name another project.",
        };
        return Refusal::new(Outcome::Unauthorized, message, hint);
    };
    let config = if user.uid == 0 { PathBuf::from(SYSTEM_CONFIG) } else { config };
    let first = match ignored.first() {
        Some(_) => "Correct the settings that were not used, or: ",
        None => "",
    };
    let repair = match reason {
        Reason::Owner { uid } => format!("Run bell as the user with uid {uid}"),
        Reason::Everybody { .. } => format!("Run chmod o-w {}", path.display()),
        _ => format!("Run chmod g-w {}", path.display()),
    };
    Refusal::new(
        Outcome::Unauthorized,
        message,
        format!(
            "{first}{repair}; or, if you trust everyone who can change it, put this line into {}: safe_projects = [{:?}]",
            config.display(),
            project.display().to_string()
        ),
    )
}
