//! Giving up what the agent must not have: another user's rights, and every capability.

use std::fs;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::error::{Error, Kind, Result};
use crate::launch::Privileges;
use crate::user::User;

/// Becomes the user. Whoever that is, no program that is executed from here on gets a capability.
pub(super) fn switch(privileges: Privileges, user: Option<&User>) -> Result<()> {
    if privileges == Privileges::None && geteuid().is_root() {
        empty_bounding_set()?;
    }
    user.map_or(Ok(()), become_user)
}

/// Drops every capability. From here on no program that is executed can get any of it back.
pub(super) fn drop_all(privileges: Privileges) -> Result<()> {
    if privileges == Privileges::None {
        // A user namespace has begun with all of them, if this process is in one of its own.
        let _ = empty_bounding_set();
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        // Kernels before 4.3 have no ambient set, and so nothing to clear.
        let _ = clear_ambient_capability_set();
        set_capabilities(None, none).map_err(|error| Error::io("drop capabilities", error))?;
    }
    set_no_new_privs(true).map_err(|error| Error::io("give up new privileges", error))
}

fn empty_bounding_set() -> Result<()> {
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap_or_default();
    let last: u32 = last.trim().parse().unwrap_or(63);
    for number in 0..=last.min(63) {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        let dropped = remove_capability_from_bounding_set(capability);
        dropped.map_err(|error| Error::io(format!("drop capability {number}"), error))?;
    }
    Ok(())
}

fn become_user(user: &User) -> Result<()> {
    let is_already = geteuid().as_raw() == user.uid;
    if is_already && !geteuid().is_root() {
        return Ok(());
    }
    if !geteuid().is_root() {
        let error = Error::new(Kind::Denied, format!("run as {}: only root can switch users", user.name));
        return Err(error.hint("Start the daemon as root, or leave `user` out."));
    }
    if fs::read_dir("/proc/self/task").map(Iterator::count).unwrap_or(1) > 1 {
        return Err(Error::new(
            Kind::Unsupported,
            format!("run as {} from a process with threads", user.name),
        ));
    }
    let failed = |error: rustix::io::Errno| Error::io(format!("run as {}", user.name), error);
    let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&groups).map_err(failed)?;
    set_thread_res_gid(gid, gid, gid).map_err(failed)?;
    set_thread_res_uid(uid, uid, uid).map_err(failed)
}
