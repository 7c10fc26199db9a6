//! Which user a run runs as, and which home it has.
//!
//! A daemon of root never runs agents as root by itself: only settings that say `user = "root"` do.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bell_project::agent::Agent;
use bell_project::settings::{HomeSetting, IsolationLevel};
use bell_runner::error::{Error, Kind, Result};
use bell_runner::user::User;
use rustix::process::{getegid, geteuid};

/// The user that a package makes for runs.
const USER_OF_PACKAGE: &str = "bell";

/// What to do where a daemon of root finds no user for its runs.
pub const REMEDIES: &str = "Set `user` in config.toml: a user of this machine, or root if that is meant (user = \"root\"). Or give the project \
                            to a user (chown -R ann .), or to a user `bell` (useradd --system bell && chown -R bell .), and list it \
                            in safe_projects of /etc/bell/config.toml.";

/// What to do about a home that can't be used.
pub const HOME_REMEDY: &str =
    "Make the folder and give it to that user, or set `home = \"own\"`: one that is made for the agent.";

const NO_USER: &str = "find a user for its runs: the daemon is root, and so is the owner of the project";

/// The owner of a project's folder, and the folder's mode.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
    mode: u32,
}

/// The home of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Home {
    /// One that is there anyway.
    Shared(PathBuf),
    /// One of the agent's own, kept between its runs.
    Own,
}

/// The user of an agent's runs; `None` if that is the daemon's.
///
/// # Errors
/// If there is no such user, or none for a daemon of root.
pub fn user(agent: &Agent, project: &Path) -> Result<Option<User>> {
    let about = fs::metadata(project).map_err(|error| Error::io("find the owner of the project", error))?;
    let owner = Owner { uid: about.uid(), gid: about.gid(), mode: about.mode() };
    choose(agent.settings.user.as_deref(), geteuid().as_raw(), owner, User::find)
}

fn choose(
    wanted: Option<&str>,
    daemon: u32,
    owner: Owner,
    find: impl Fn(&str) -> Result<User>,
) -> Result<Option<User>> {
    if let Some(name) = wanted {
        return Ok(Some(find(name)?).filter(|user| user.uid != daemon));
    }
    if daemon != 0 {
        return Ok(None);
    }
    if owner.uid != 0 {
        // A number that no file lists is good enough: that of a container, for one.
        let listed = find(&owner.uid.to_string());
        return listed.or_else(|_| find(&format!("{}:{}", owner.uid, owner.gid))).map(Some);
    }
    let of_package = find(USER_OF_PACKAGE).ok().filter(|user| can_write(user, owner));
    of_package.map(Some).ok_or_else(|| Error::new(Kind::Invalid, NO_USER).hint(REMEDIES))
}

fn can_write(user: &User, owner: Owner) -> bool {
    let is_in_group = user.gid == owner.gid || user.groups.contains(&owner.gid);
    let bit = match () {
        () if user.uid == owner.uid => 0o200,
        () if is_in_group => 0o020,
        () => 0o002,
    };
    owner.mode & bit != 0
}

/// The home of an agent's runs. `user` is who they run as, if not as the daemon.
///
/// # Errors
/// If the settings name one that the user can't write.
pub fn home(agent: &Agent, project: &Path, user: Option<&User>) -> Result<Home> {
    let inherited = || match user {
        Some(user) => user.home.as_ref().map(PathBuf::from),
        None => std::env::var_os("HOME").map(PathBuf::from),
    };
    let user = user.map_or_else(this_user, |user| Ok(user.clone()))?;
    let writable = |home: PathBuf| match writable_by(&home, &user) {
        Ok(()) => Ok(Home::Shared(home)),
        Err(why) => {
            let message = format!("use the home {}: {why}", home.display());
            Err(Error::new(why.kind(), message).hint(HOME_REMEDY))
        }
    };
    match &agent.settings.home {
        Some(HomeSetting::Own) => Ok(Home::Own),
        Some(HomeSetting::Inherit) => inherited().map_or(Ok(Home::Own), writable),
        Some(HomeSetting::At(path)) => writable(project.join(path)),
        // A container does not see the user's.
        None if agent.settings.isolation == IsolationLevel::Strict || agent.settings.container.is_some() => {
            Ok(Home::Own)
        }
        None => {
            let home = inherited().filter(|home| writable_by(home, &user).is_ok());
            Ok(home.map_or(Home::Own, Home::Shared))
        }
    }
}

/// Whether a user can write a folder. Rights of root do not count: runs have none.
fn writable_by(folder: &Path, user: &User) -> Result<()> {
    let about = fs::metadata(folder).map_err(|error| Error::new(Kind::of_io(&error), error.to_string()))?;
    if !about.is_dir() {
        return Err(Error::new(Kind::Invalid, "it is not a folder"));
    }
    let owner = Owner { uid: about.uid(), gid: about.gid(), mode: about.mode() };
    if can_write(user, owner) {
        Ok(())
    } else {
        Err(Error::new(Kind::Denied, format!("{} can't write it", user.name)))
    }
}

/// The user of this process. One that no file lists is a number.
fn this_user() -> Result<User> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    User::find(&uid.to_string()).or_else(|_| User::find(&format!("{uid}:{gid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_ROOT: Owner = Owner { uid: 0, gid: 0, mode: 0o755 };

    fn find(name: &str) -> Result<User> {
        let (uid, groups) = match name {
            "root" | "0" => (0, Vec::new()),
            "ann" | "1000" => (1000, vec![7]),
            "bell" => (200, vec![7]),
            "4000:4001" => (4000, Vec::new()),
            _ => return Err(Error::new(Kind::NotFound, format!("find {name}"))),
        };
        Ok(User { name: name.to_owned(), uid, gid: uid, groups, home: None })
    }

    fn uid(wanted: Option<&str>, daemon: u32, owner: Owner) -> Result<Option<u32>, String> {
        let user = choose(wanted, daemon, owner, find).map_err(|error| error.to_string())?;
        Ok(user.map(|user| user.uid))
    }

    #[test]
    fn a_daemon_of_root_runs_agents_as_root_only_if_their_settings_say_so() {
        assert_eq!(uid(Some("root"), 0, OF_ROOT), Ok(None));
        assert_eq!(uid(None, 0, OF_ROOT), Err(NO_USER.to_owned()));
    }

    #[test]
    fn a_daemon_of_root_takes_the_owner_of_the_project_and_then_the_user_of_the_package() {
        assert_eq!(uid(None, 0, Owner { uid: 1000, gid: 1000, mode: 0o755 }), Ok(Some(1000)));
        assert_eq!(uid(None, 0, Owner { uid: 4000, gid: 4001, mode: 0o755 }), Ok(Some(4000)));
        assert_eq!(uid(None, 0, Owner { gid: 7, mode: 0o775, ..OF_ROOT }), Ok(Some(200)));
        assert_eq!(uid(None, 0, Owner { gid: 7, mode: 0o755, ..OF_ROOT }), Err(NO_USER.to_owned()));
    }

    #[test]
    fn a_daemon_of_a_plain_user_runs_agents_as_itself() {
        assert_eq!(uid(None, 1000, OF_ROOT), Ok(None));
        assert_eq!(uid(Some("ann"), 1000, OF_ROOT), Ok(None));
        assert_eq!(uid(Some("bell"), 1000, OF_ROOT), Ok(Some(200)));
        assert!(uid(Some("zoe"), 1000, OF_ROOT).is_err());
    }
}
