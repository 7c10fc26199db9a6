//! Whether a project that was found may be used by this user.
//!
//! A project says which programs run and where locks are. One that another user made, or can change, could run programs as this
//! user, or give out locks that exclude nobody; so it is refused, as git refuses repositories, unless this user's or the
//! system's own settings list it as safe. What the project itself says about that does not count.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Deserialize;

use crate::locate::STATE_FOLDER;

/// The settings of the whole machine.
pub const SYSTEM_CONFIG: &str = "/etc/bell/config.toml";
/// Bytes in a user's settings: thousands of projects fit.
const CONFIG_BYTES_MAX: u64 = 256 << 10;
/// The access list of a file, where it has one: its group bits then say nothing about who may write.
const ACCESS_LIST: &str = "system.posix_acl_access";

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// Who looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// The effective user.
    pub uid: u32,
    /// The user who called sudo. It counts for root only: anybody can set the variable.
    pub sudo_uid: Option<u32>,
}

impl User {
    /// Whether what belongs to `owner` is in hands that this user trusts anyway: its own, root's, or for root those of the
    /// user who called sudo.
    pub fn trusts(self, owner: u32) -> bool {
        owner == self.uid || owner == 0 || (self.uid == 0 && self.sudo_uid == Some(owner))
    }
}

/// What is known of a file or a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its mode.
    pub mode: u32,
    /// Whether it has an access list.
    pub has_list: bool,
}

/// Why something is not trusted. The words read after its name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// It is another user's.
    #[error("belongs to another user (uid {uid})")]
    Owner {
        /// Whose it is.
        uid: u32,
    },
    /// Every user may write.
    #[error("is writable by every user (mode {mode:03o})")]
    Everybody {
        /// Its mode.
        mode: u32,
    },
    /// Users of its group may write.
    #[error("is writable by a group that has or may have other members (gid {gid}, mode {mode:03o})")]
    Group {
        /// Its group.
        gid: u32,
        /// Its mode.
        mode: u32,
    },
    /// Its access list may let others write.
    #[error("has an access list that lets others write (getfacl shows it)")]
    List,
    /// It should be a folder.
    #[error("is not a folder: it is masked here, or something else has put it there")]
    NoFolder,
    /// The system refused.
    #[error("can't be looked at: {0}")]
    Unreadable(String),
}

/// Something of a project that is not trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distrust {
    /// The project's folder, or the one in it.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
    /// Settings that were not read because they are not trusted themselves, or can't be read.
    pub ignored: Vec<String>,
}

impl Distrust {
    /// Whether listing the project as safe helps.
    pub fn can_be_listed(&self) -> bool {
        !matches!(self.reason, Reason::NoFolder | Reason::Unreadable(_))
    }
}

/// What may be read of a user's or a system's settings.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    safe_projects: Vec<String>,
}

/// Whether this user trusts it. `others` says whether a group has members that are not trusted anyway.
///
/// # Errors
/// With the reason why not.
pub fn judge(access: Access, user: User, others: impl FnOnce(u32) -> bool) -> Result<(), Reason> {
    let mode = access.mode & 0o7777;
    if !user.trusts(access.uid) {
        return Err(Reason::Owner { uid: access.uid });
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(Reason::Everybody { mode });
    }
    if mode & GROUP_WRITES == 0 {
        return Ok(());
    }
    if access.has_list {
        return Err(Reason::List);
    }
    if others(access.gid) { Err(Reason::Group { gid: access.gid, mode }) } else { Ok(()) }
}

/// Whether a group has members whom `is_trusted` does not know. A group that is in neither file may have any.
pub fn has_others(gid: u32, passwd: &str, group: &str, is_trusted: impl Fn(u32) -> bool) -> bool {
    let users = || passwd.lines().filter_map(user_line);
    let Some(members) = group.lines().find_map(|line| group_line(line, gid)) else {
        return true;
    };
    let is_other = |name: &str| {
        !name.is_empty() && users().find(|user| user.0 == name).is_none_or(|user| !is_trusted(user.1))
    };
    members.split(',').any(is_other) || users().any(|user| user.2 == gid && !is_trusted(user.1))
}

/// Name, user and group.
fn user_line(line: &str) -> Option<(&str, u32, u32)> {
    let mut fields = line.split(':');
    let (name, uid, gid) = (fields.next()?, fields.nth(1)?, fields.next()?);
    Some((name, uid.parse().ok()?, gid.parse().ok()?))
}

/// The members, if it is the line of this group.
fn group_line(line: &str, gid: u32) -> Option<&str> {
    let mut fields = line.split(':');
    let given = fields.nth(2)?;
    (given.parse() == Ok(gid)).then(|| fields.next().unwrap_or_default())
}

/// Whether an entry of `safe_projects` means this project: its path, `*`, or `FOLDER/*` for everything below a folder.
fn is_listed(entry: &str, project: &Path) -> bool {
    match entry.strip_suffix("/*") {
        _ if entry == "*" => true,
        Some(folder) => project != Path::new(folder) && project.starts_with(Path::new("/").join(folder)),
        None => {
            let entry = Path::new(entry);
            entry == project
                || (entry.is_absolute() && fs::canonicalize(entry).is_ok_and(|path| path == project))
        }
    }
}

/// Whether this user may use the project: its folder and the state in it.
///
/// # Errors
/// With what is wrong, unless `configs`, the settings of this user and of the system, list the project.
pub fn check(project: &Path, user: User, configs: &[PathBuf]) -> Result<(), Distrust> {
    let distrust = |path: PathBuf, reason| Distrust { path, reason, ignored: Vec::new() };
    for path in [project.to_owned(), project.join(STATE_FOLDER)] {
        let found = match fs::metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
                continue;
            }
            Err(error) => return Err(distrust(path, Reason::Unreadable(error.to_string()))),
        };
        if !found.is_dir() {
            return Err(distrust(path, Reason::NoFolder));
        }
        if let Err(reason) = judge(access_of(&path, &found), user, |gid| group_has_others(gid, user)) {
            let (is_safe, ignored) = look_up(project, user, configs);
            return if is_safe { Ok(()) } else { Err(Distrust { path, reason, ignored }) };
        }
    }
    Ok(())
}

/// Why a file or folder is not in the hands of this user alone, if it is not. What is not there is in nobody's.
pub fn distrusted(path: &Path, user: User) -> Option<Reason> {
    let found = fs::metadata(path).ok()?;
    judge(access_of(path, &found), user, |gid| group_has_others(gid, user)).err()
}

/// Whether the project is listed, and which settings can't be used.
fn look_up(project: &Path, user: User, configs: &[PathBuf]) -> (bool, Vec<String>) {
    let mut ignored = Vec::new();
    for path in configs {
        match read_config(path, user) {
            Ok(config) if config.safe_projects.iter().any(|entry| is_listed(entry, project)) => {
                return (true, Vec::new());
            }
            Ok(_) => {}
            Err(why) => ignored.push(format!("{} {why}", path.display())),
        }
    }
    (false, ignored)
}

fn read_config(path: &Path, user: User) -> Result<Config, String> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Config::default());
        }
        Err(error) => return Err(Reason::Unreadable(error.to_string()).to_string()),
    };
    if !found.is_file() || found.len() > CONFIG_BYTES_MAX {
        return Err("is not a file of settings".to_owned());
    }
    judge(access_of(path, &found), user, |gid| group_has_others(gid, user))
        .map_err(|reason| reason.to_string())?;
    let text = fs::read_to_string(path).map_err(|error| Reason::Unreadable(error.to_string()).to_string())?;
    toml::from_str(&text).map_err(|error| format!("has a mistake: {}", error.message()))
}

fn access_of(path: &Path, found: &fs::Metadata) -> Access {
    Access { uid: found.uid(), gid: found.gid(), mode: found.mode(), has_list: has_list(path) }
}

fn has_list(path: &Path) -> bool {
    match rustix::fs::getxattr(path, ACCESS_LIST, &mut [0_u8; 0]) {
        Ok(bytes) => bytes > 0,
        Err(error) => !matches!(error, Errno::NODATA | Errno::NOTSUP),
    }
}

fn group_has_others(gid: u32, user: User) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    has_others(gid, &read("/etc/passwd"), &read("/etc/group"), |uid| user.trusts(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: u32 = 1_000;
    const BOB: u32 = 1_001;

    fn judged(uid: u32, mode: u32, user: User) -> Result<(), Reason> {
        judge(Access { uid, gid: 7, mode, has_list: false }, user, |_| false)
    }

    fn user(uid: u32) -> User {
        User { uid, sudo_uid: None }
    }

    #[test]
    fn own_and_roots_projects_are_trusted_and_no_others() {
        assert_eq!(judged(ANN, 0o755, user(ANN)), Ok(()));
        assert_eq!(judged(0, 0o755, user(ANN)), Ok(()));
        assert_eq!(judged(BOB, 0o700, user(ANN)), Err(Reason::Owner { uid: BOB }));
        assert_eq!(judged(ANN, 0o755, user(0)), Err(Reason::Owner { uid: ANN }));
    }

    #[test]
    fn root_trusts_the_user_who_called_sudo_and_sudo_means_nothing_for_others() {
        assert_eq!(judged(ANN, 0o755, User { uid: 0, sudo_uid: Some(ANN) }), Ok(()));
        assert!(judged(BOB, 0o755, User { uid: 0, sudo_uid: Some(ANN) }).is_err());
        assert!(judged(BOB, 0o755, User { uid: ANN, sudo_uid: Some(BOB) }).is_err());
    }

    #[test]
    fn what_others_can_write_is_not_trusted_whoever_owns_it() {
        assert_eq!(judged(ANN, 0o1777, user(ANN)), Err(Reason::Everybody { mode: 0o1777 }));
        assert_eq!(judged(ANN, 0o775, user(ANN)), Ok(()), "a group of one's own");
        let access = Access { uid: ANN, gid: 7, mode: 0o775, has_list: false };
        assert_eq!(judge(access, user(ANN), |gid| gid == 7), Err(Reason::Group { gid: 7, mode: 0o775 }));
        assert_eq!(judge(Access { has_list: true, ..access }, user(ANN), |_| false), Err(Reason::List));
        assert_eq!(judge(Access { has_list: true, mode: 0o755, ..access }, user(ANN), |_| true), Ok(()));
    }

    #[test]
    fn a_group_has_others_by_its_list_by_theirs_or_if_it_is_not_known() {
        let passwd = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\ncat:x:1002:50::/:/\n";
        let group = "root:x:0:\nann:x:1000:\nboth:x:40:ann,bob\nalone:x:41:ann\ngone:x:42:dan\nstaff:x:50:\n";
        let has = |gid| has_others(gid, passwd, group, |uid| uid == ANN || uid == 0);
        assert_eq!([0, 1_000, 41].map(has), [false; 3]);
        assert_eq!([40, 42, 50, 1_001, 99].map(has), [true; 5]);
    }

    #[test]
    fn an_entry_names_a_project_or_all_below_a_folder() {
        let project = Path::new("/srv/fleet");
        for entry in ["/srv/fleet", "/srv/fleet/", "/srv/*", "/*", "*"] {
            assert!(is_listed(entry, project), "{entry}");
        }
        for entry in ["", "/srv", "/srv/fleet/*", "/srv/fle*", "fleet", "srv/fleet", "/srv/other"] {
            assert!(!is_listed(entry, project), "{entry}");
        }
    }
}
