//! A disk with no space left: nothing half-written, nothing lost, and it goes on once there is space.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use bell_store::info::Durability;
use bell_store::{Kind, Store};
use support::{block_on, create, open};

/// A small file system in memory, for as long as the test lasts.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Self {
        let small = Self(tempfile::tempdir().unwrap());
        small.run("mount", &["-t", "tmpfs", "-o", "size=1M,mode=700", "tmpfs"]);
        small
    }

    fn grow(&self) {
        self.run("mount", &["-o", "remount,size=8M"]);
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let status = support::program(program).args(arguments).arg(self.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "this test mounts file systems: run it as root");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

#[test]
fn a_full_disk_refuses_commits_and_keeps_those_it_took() {
    let disk = Small::mount();
    let store = open(disk.path());
    assert_eq!(store.info().durability, Durability::Process, "memory does not survive the machine");
    let value = vec![b'x'; 100_000];
    let mut taken = 0;
    let error = loop {
        match block_on(create(&store, &format!("large/{taken}"), &value)) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::Full);
    assert!(error.advice().contains("Free some space"));
    assert!(taken > 5);
    let count = |store: &dyn Store| block_on(store.scan("large/", "", 100)).unwrap().records.len();
    assert_eq!(count(&store), taken, "also while it is full it can be read");
    disk.grow();
    block_on(create(&store, &format!("large/{taken}"), &value)).unwrap();
    assert_eq!(count(&store), taken + 1);
    drop(store);
    assert_eq!(count(&open(disk.path())), taken + 1);
}

#[test]
fn a_read_only_mount_is_refused_with_what_to_do() {
    let disk = Small::mount();
    drop(open(disk.path()));
    disk.run("mount", &["-o", "remount,ro"]);
    let error = bell_store_fs::Folder::open(disk.path()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::ReadOnly);
    assert!(error.advice().contains("for writing"), "{}", error.advice());
}
