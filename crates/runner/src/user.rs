//! Who an agent runs as: a user by name or number, from the machine's own files.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};

/// A user and its groups.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct User {
    /// Its name, or its number as text.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its main group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
    /// Its home folder.
    pub home: Option<String>,
}

impl User {
    /// Finds a user: a name, a number, or `uid:gid` for one that no file lists.
    pub fn find(name: &str) -> Result<Self> {
        let read =
            |path: &str| fs::read_to_string(path).map_err(|error| Error::io(format!("read {path}"), error));
        find_in(name, &read("/etc/passwd")?, &read("/etc/group")?)
    }
}

fn find_in(name: &str, passwd: &str, group: &str) -> Result<User> {
    if let Some((uid, gid)) = name.split_once(':') {
        if let (Ok(uid), Ok(gid)) = (uid.parse::<u32>(), gid.parse()) {
            return Ok(User { name: uid.to_string(), uid, gid, groups: Vec::new(), home: None });
        }
    } else if let Some(user) = passwd.lines().filter_map(entry).find(|user| is_called(user, name)) {
        return Ok(User { groups: groups_of(&user, group), ..user });
    }
    let error = Error::new(Kind::NotFound, format!("find the user {name:?} on this machine"));
    Err(error.hint("Use a name from /etc/passwd, or numbers as in 1000:1000."))
}

fn is_called(user: &User, name: &str) -> bool {
    user.name == name || name.parse() == Ok(user.uid)
}

fn entry(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    let home = fields.nth(1).map(str::to_owned);
    Some(User { name, uid, gid, groups: Vec::new(), home })
}

fn groups_of(user: &User, group: &str) -> Vec<u32> {
    let lists_user = |line: &&str| {
        line.rsplit(':').next().is_some_and(|members| members.split(',').any(|member| member == user.name))
    };
    let number = |line: &str| line.split(':').nth(2)?.parse().ok();
    group.lines().filter(lists_user).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1001:Ann,,,:/home/ann:/bin/sh\nbroken\n";
    const GROUP: &str = "root:x:0:\nann:x:1001:\ndocker:x:998:bob,ann\nwheel:x:10:anna\n";

    #[test]
    fn a_user_is_found_by_name_or_number_with_its_groups() {
        for name in ["ann", "1000"] {
            let user = find_in(name, PASSWD, GROUP).unwrap();
            assert_eq!((user.uid, user.gid, user.groups.as_slice()), (1000, 1001, [998].as_slice()));
            assert_eq!(user.home.as_deref(), Some("/home/ann"));
        }
    }

    #[test]
    fn numbers_need_no_entry() {
        let user = find_in("4000:5000", PASSWD, GROUP).unwrap();
        assert_eq!((user.uid, user.gid, user.groups.len()), (4000, 5000, 0));
    }

    #[test]
    fn an_unknown_user_is_refused_by_name() {
        for name in ["zoe", "", "4000", "a:b", "broken"] {
            let error = find_in(name, PASSWD, GROUP).unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound);
            assert!(error.to_string().contains(name));
        }
    }
}
