//! A real container engine: podman with configuration and storage of its own, and one image, made of busybox and the
//! libraries that `bell` needs. When it is dropped, its containers and files are removed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Resource, getrlimit};

/// The image, as settings of an agent name it.
pub(crate) const IMAGE: &str = "localhost/agents:1";

/// What podman sets unless it is told otherwise: limits that only some roots may set.
const FILES: u64 = 1_024;
const PROCESSES: u64 = 4_096;

pub(crate) struct Podman {
    folder: tempfile::TempDir,
}

impl Podman {
    pub(crate) fn start() -> Self {
        let podman = Self { folder: tempfile::tempdir().unwrap() };
        podman.configure();
        podman.make_image();
        podman
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The driver vfs needs no overlay file system, runc no particular layout of control groups, and `cgroupfs` no systemd.
    fn configure(&self) {
        let at = |name: &str| self.path(name).display().to_string();
        let most = |resource, usual: u64| getrlimit(resource).maximum.map_or(usual, |most| most.min(usual));
        let (files, processes) = (most(Resource::Nofile, FILES), most(Resource::Nproc, PROCESSES));
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = {:?}\nrunroot = {:?}\n",
            at("graph"),
            at("run")
        );
        let containers = format!(
            "[containers]\nnetns = \"none\"\n\
             default_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\n\
             tmp_dir = {:?}\nimage_copy_tmp_dir = {:?}\n[engine.runtimes]\nrunc = [{:?}]\n",
            at("tmp"),
            at("copy"),
            at("runc")
        );
        let runc = format!("#!/bin/sh\nexec {} --root {} \"$@\"\n", find("runc").display(), at("runtime"));
        fs::write(self.path("runc"), runc).unwrap();
        fs::set_permissions(self.path("runc"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(self.path("copy")).unwrap();
        fs::write(self.path("storage.conf"), storage).unwrap();
        fs::write(self.path("containers.conf"), containers).unwrap();
    }

    fn make_image(&self) {
        let root = self.path("image");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        let busybox = find("busybox");
        for program in [busybox.as_path(), Path::new(env!("CARGO_BIN_EXE_bell"))] {
            for library in libraries(program) {
                let at = root.join(library.strip_prefix("/").unwrap());
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                fs::copy(library, at).unwrap();
            }
        }
        fs::copy(&busybox, root.join("bin/busybox")).unwrap();
        let commands = said(run(command(&busybox).arg("--list")));
        for name in commands.lines().filter(|name| *name != "busybox") {
            symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        let archive = self.path("image.tar");
        said(run(command(Path::new("tar")).arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".")));
        self.ask(&["import", "--quiet", archive.to_str().unwrap(), IMAGE]);
    }

    /// What leads podman to this storage.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("CONTAINERS_CONF", self.path("containers.conf")),
            ("CONTAINERS_STORAGE_CONF", self.path("storage.conf")),
        ]
    }

    /// What a command of podman answers.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        said(run(command(Path::new("podman")).args(arguments).envs(self.variables())))
    }

    /// The names of all containers, whatever state they are in.
    pub(crate) fn containers(&self) -> Vec<String> {
        let names = self.ask(&["ps", "--all", "--format", "{{.Names}}"]);
        names.lines().map(str::to_owned).collect()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // Only a test that failed leaves some. After a monitor was killed podman needs a second try, and leaves what the
        // runtime knows of the container.
        for _ in 0..2 {
            let mut remove = command(Path::new("podman"));
            let _ = run(remove.args(["rm", "--all", "--force", "--time", "0"]).envs(self.variables()));
        }
        for left in fs::read_dir(self.path("runtime")).into_iter().flatten().flatten() {
            let _ = run(command(&self.path("runc")).args(["delete", "--force"]).arg(left.file_name()));
        }
    }
}

fn command(program: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a test needs a container engine")]
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Output {
    let name = command.get_program().to_owned();
    command.output().unwrap_or_else(|error| {
        panic!("{}: {error}: apt-get install podman runc catatonit busybox-static", name.display())
    })
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{program}: apt-get install busybox-static"))
}

/// The shared libraries of a program, the one that loads the others included; none if it is linked statically.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = run(command(Path::new("ldd")).arg(program));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(|word| PathBuf::from(word.trim_end_matches(':'))).filter(|path| path != program).collect()
}
