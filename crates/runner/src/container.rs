//! Running an agent in a container, by the command of an engine that is installed: docker or podman.
//!
//! The engine's client is what the supervisor starts and watches. It passes TERM on by itself, but dies alone
//! when it is killed, so the container has a name and is ended by it, and the engine is asked whether it is gone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bell_store::clock::boottime;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::env::Environment;
use crate::error::{Error, Kind, Result};
use crate::isolation::{Kind as FileKind, Step, View, Views, plan};
use crate::launch::{Launch, Stdin};

/// An engine that does not answer is given up after so long, and asked this often; longer is for an operator. It takes two
/// where a monitor of podman was killed: the first only has podman notice that.
pub(crate) const ENGINE_LIMIT: Duration = Duration::from_secs(10);
const TRIES: usize = 3;

/// No try begins after so long: what can be ended without the engine is ended then.
const TRIES_LIMIT: Duration = Duration::from_secs(20);

/// What the monitor of podman 4.3 leaves where the client was started, which podman itself does not find.
const OUT_OF_MEMORY: &str = "oom";

/// What engines answer if they can't make a container, or can't run or find its first program.
const NOT_STARTED_CODES: RangeInclusive<i32> = 125..=127;

/// What engines call a container that was made and never ran.
const NOT_STARTED_STATES: [&str; 3] = ["created", "configured", "initialized"];

/// What engines answer for a process that was ended for its CPU time, which `--ulimit cpu` limits: 128 and the signal.
pub(crate) const OUT_OF_CPU_TIME: i32 = 128 + Signal::XCPU.as_raw();

/// The container that an agent runs in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Container {
    /// The engine's command, such as `docker` or `podman`.
    pub engine: String,
    /// What the engine's command finds in its environment: `PATH`, `HOME`, `DOCKER_HOST` and so on.
    pub engine_env: Environment,
    /// The image.
    pub image: String,
    /// Folders and files of this machine that the container sees.
    pub mounts: Vec<Mount>,
    /// The engine's name of a network; `none` for none.
    pub network: Option<String>,
    /// What the container sees of its mounts.
    #[serde(default)]
    pub views: Views,
}

/// A folder or file of this machine, seen in a container.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// Here.
    pub from: PathBuf,
    /// There.
    pub to: PathBuf,
    /// What the agent may do with it.
    pub access: MountAccess,
}

/// What an agent may do with a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountAccess {
    /// Look.
    Read,
    /// Change.
    Write,
}

/// The container's name. It carries the nonce, so it never names that of another start.
pub(crate) fn name(launch: &Launch) -> String {
    format!("bell-{}-{}", launch.run, launch.nonce.get(..8).unwrap_or(&launch.nonce))
}

/// The engine's command that runs the agent. The environment goes by file: arguments can be seen by everybody.
///
/// `cwd` is a folder inside; `covers` is where [`make_covers`] made what hides folders.
pub(crate) fn run_argv(
    launch: &Launch,
    container: &Container,
    cwd: &Path,
    env_file: &Path,
    covers: &Path,
) -> Result<Vec<String>> {
    // Without --rm: the supervisor asks how the container ended, and removes it. Without a log: the supervisor keeps it.
    let mut argv = words(&[&container.engine, "run", "--init", "--log-driver", "none"]);
    if launch.stdin != Stdin::Null {
        argv.push("--interactive".into());
    }
    let mut option = |name: &str, value: String| argv.extend([name.to_owned(), value]);
    option("--name", name(launch));
    option("--label", format!("bell.run={}", launch.run));
    option("--label", format!("bell.nonce={}", launch.nonce));
    option("--env-file", env_file.display().to_string());
    option("--workdir", cwd.display().to_string());
    option("--cap-drop", "ALL".into());
    option("--security-opt", "no-new-privileges".into());
    if let Some(user) = &launch.user {
        option("--user", format!("{}:{}", user.uid, user.gid));
    }
    if let Some(network) = &container.network {
        option("--network", network.clone());
    }
    for mount in &container.mounts {
        option("--mount", mount.to_option()?);
    }
    for mount in masks(&steps(container, FileKind::at), covers, &container.views) {
        option("--mount", mount.to_option()?);
    }
    let limits = &launch.limits;
    let limited = [
        ("--memory", limits.memory_bytes.map(|bytes| bytes.to_string())),
        // Memory and swap together: engines allow as much swap again.
        ("--memory-swap", limits.memory_bytes.map(|bytes| bytes.to_string())),
        ("--cpus", limits.cpu_hundredths.map(|count| format!("{}.{:02}", count / 100, count % 100))),
        ("--pids-limit", limits.processes.map(|count| count.to_string())),
        ("--ulimit", limits.open_files.map(|count| format!("nofile={count}"))),
        ("--ulimit", limits.cpu_seconds.map(|seconds| format!("cpu={seconds}"))),
        ("--cpu-shares", limits.cpu_weight.map(|weight| (u64::from(weight) * 1024 / 100).to_string())),
    ];
    for (name, value) in limited {
        if let Some(value) = value {
            option(name, value);
        }
    }
    argv.push(container.image.clone());
    argv.extend(launch.argv.iter().cloned());
    Ok(argv)
}

/// Makes the folders that cover what is hidden from the container: each is empty but for the places of what is restored in it.
///
/// A tmpfs would not do: podman fills it with what was there before, which is what is to be hidden.
pub(crate) fn make_covers(container: &Container, covers: &Path) -> Result<()> {
    let steps = steps(container, FileKind::at);
    let made = steps.iter().try_for_each(|step| match step {
        Step::Cover(path, FileKind::Folder) | Step::Restore(path, FileKind::Folder) => {
            make_folders(covers, path)
        }
        Step::Restore(path, FileKind::File) => {
            make_folders(covers, path.parent().unwrap_or(path))?;
            File::create(cover_of(covers, path)).map(drop)
        }
        Step::Cover(_, FileKind::File) | Step::Seal(_) => Ok(()),
    });
    made.map_err(|error| Error::io(format!("make {}", covers.display()), error).of_machine())
}

/// Every user of a container passes through them, whatever the umask is.
fn make_folders(covers: &Path, path: &Path) -> io::Result<()> {
    let folder = cover_of(covers, path);
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    missing.into_iter().rev().try_for_each(|folder| {
        DirBuilder::new().create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))
    })
}

/// What covers a path.
fn cover_of(covers: &Path, path: &Path) -> PathBuf {
    covers.join(path.strip_prefix("/").unwrap_or(path))
}

/// The steps that give the run its views of what is mounted.
fn steps(container: &Container, kind: impl Fn(&Path) -> Option<FileKind>) -> Vec<Step> {
    let is_mounted = |path: &Path| container.mounts.iter().any(|mount| path.starts_with(&mount.to));
    let views: Views = container.views.iter().filter(|(path, _)| is_mounted(path)).map(owned).collect();
    plan(&views, kind)
}

/// Mounts over the other mounts, which give the run its views. Engines make the mounts of inner folders last.
fn masks(steps: &[Step], covers: &Path, views: &Views) -> Vec<Mount> {
    let view = |path: &Path| match views.of(path) {
        View::ReadOnly => MountAccess::Read,
        View::Hidden | View::Open => MountAccess::Write,
    };
    let mount = |from: PathBuf, to: &Path, access| Mount { from, to: to.to_owned(), access };
    let masks = steps.iter().filter_map(|step| match step {
        Step::Cover(path, FileKind::Folder) => Some(mount(cover_of(covers, path), path, MountAccess::Read)),
        Step::Cover(path, FileKind::File) => Some(mount("/dev/null".into(), path, MountAccess::Read)),
        Step::Restore(path, _) => Some(mount(path.clone(), path, view(path))),
        Step::Seal(_) => None,
    });
    masks.collect()
}

fn owned((path, view): (&Path, View)) -> (PathBuf, View) {
    (path.to_owned(), view)
}

/// What runs commands of an engine.
pub(crate) trait Client {
    /// Runs a command to its end, and answers with what it prints.
    fn ask(&mut self, argv: Vec<String>) -> impl Future<Output = std::result::Result<String, String>> + Send;
}

/// Ends the container, removes it and asks the engine whether it is gone.
///
/// # Errors
/// If that could not be confirmed.
pub(crate) async fn end(
    launch: &Launch,
    container: &Container,
    client: &mut impl Client,
) -> std::result::Result<(), String> {
    let (engine, name) = (container.engine.as_str(), name(launch));
    let (began, mut last) = (boottime(), String::new());
    for _ in 0..TRIES {
        if boottime() - began > TRIES_LIMIT {
            break;
        }
        // First `kill`: `rm` of podman waits for the container to end after TERM. Whether they helped is seen by the look.
        let _ = client.ask(words(&[engine, "kill", &name])).await;
        let _ = client.ask(words(&[engine, "rm", "--force", &name])).await;
        match client.ask(list_argv(launch, container)).await {
            Ok(ids) if ids.trim().is_empty() => return Ok(()),
            Ok(_) => "the engine still lists it".clone_into(&mut last),
            Err(error) => last = error,
        }
    }
    Err(format!("could not confirm that {name} is gone: {last}"))
}

/// The failure that the engine made no container, or did not run the agent in it. An agent may end with the same codes. To be asked
/// before the container is removed.
pub(crate) async fn not_started(
    launch: &Launch,
    container: &Container,
    code: i32,
    client: &mut impl Client,
) -> Option<Error> {
    if !NOT_STARTED_CODES.contains(&code) {
        return None;
    }
    let engine = container.engine.as_str();
    let inspect = [engine, "container", "inspect", "--format", "{{.State.Status}}", &name(launch)];
    let never_ran = match client.ask(words(&inspect)).await {
        Ok(status) => NOT_STARTED_STATES.contains(&status.trim()),
        // An engine that does not answer may have run it.
        Err(_) => client.ask(list_argv(launch, container)).await.is_ok_and(|ids| ids.trim().is_empty()),
    };
    let message = format!("run it in a container: {engine} ended with {code}, and says why in the run's log");
    let hint = "Look at it with bell logs, then mend `container` or `run`.";
    never_ran.then(|| Error::new(Kind::Invalid, message).hint(hint))
}

/// Prints the id of the container, whatever its state is.
fn list_argv(launch: &Launch, container: &Container) -> Vec<String> {
    let label = format!("label=bell.nonce={}", launch.nonce);
    words(&[&container.engine, "ps", "--all", "--quiet", "--no-trunc", "--filter", &label])
}

/// Whether the kernel ended a process of the container for want of memory. To be asked before the container is removed.
pub(crate) async fn ran_out_of_memory(
    launch: &Launch,
    container: &Container,
    client: &mut impl Client,
) -> bool {
    let inspect = ["container", "inspect", "--format", "{{.State.OOMKilled}}", &name(launch)];
    let answer = client.ask(words(&[&[container.engine.as_str()], &inspect[..]].concat())).await;
    answer.is_ok_and(|answer| answer.trim() == "true") || launch.run_dir.join(OUT_OF_MEMORY).exists()
}

/// The failure that there is no engine.
pub(crate) fn no_engine(container: &Container) -> Error {
    let engine = &container.engine;
    let error = Error::new(Kind::NotFound, format!("run it in a container: there is no {engine} in PATH"));
    error.hint(format!("Install {engine}, or take `container` out."))
}

/// The content of the environment file: one name and value per line, as the engines read it.
pub(crate) fn env_file(env: &Environment) -> Result<String> {
    let mut text = String::new();
    for (name, value) in env.iter() {
        if value.contains(['\n', '\r']) || name.starts_with('#') {
            let error =
                Error::new(Kind::Invalid, format!("give {name} to a container: it has a line end in it"));
            return Err(error.hint("Give it by a mounted file."));
        }
        text.extend([name, "=", value, "\n"]);
    }
    Ok(text)
}

impl Mount {
    fn to_option(&self) -> Result<String> {
        let (from, to) = (self.from.display().to_string(), self.to.display().to_string());
        if from.contains([',', '"']) || to.contains([',', '"']) {
            let error =
                Error::new(Kind::Invalid, format!("mount {from}: its name has a comma or quote in it"));
            return Err(error.hint("Use a path without commas and quotes."));
        }
        let access = match self.access {
            MountAccess::Read => ",readonly",
            MountAccess::Write => "",
        };
        Ok(format!("type=bind,source={from},target={to}{access}"))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Container {
        Container {
            engine: "podman".into(),
            engine_env: Environment::empty(),
            image: "alpine:3".into(),
            mounts: Vec::new(),
            network: None,
            views: Views::default(),
        }
    }

    fn launch() -> Launch {
        Launch::new("run-1", "/runs/run-1", words(&["agent", "-x", "a b; rm -rf /"])).unwrap()
    }

    fn argv_of(launch: &Launch, container: &Container) -> Result<Vec<String>> {
        run_argv(launch, container, &launch.cwd, Path::new("/e"), Path::new("/c"))
    }

    #[test]
    fn the_agent_and_its_arguments_come_last_and_unchanged() {
        let argv = argv_of(&launch(), &container()).unwrap();
        let image = argv.iter().position(|word| word == "alpine:3").unwrap();
        assert_eq!(argv[image + 1..], ["agent", "-x", "a b; rm -rf /"]);
        assert_eq!(argv[..2], ["podman", "run"]);
    }

    #[test]
    fn values_of_the_environment_are_not_among_the_arguments() {
        let mut launch = launch();
        launch.env = Environment::empty().with("KEY", "canary");
        let argv = argv_of(&launch, &container()).unwrap();
        assert!(!argv.iter().any(|word| word.contains("canary")));
        assert_eq!(env_file(&launch.env).unwrap(), "KEY=canary\n");
    }

    #[test]
    fn what_would_mean_something_else_to_the_engine_is_refused() {
        let mut odd = container();
        let (from, to) = ("/a,readonly=false".into(), "/b".into());
        odd.mounts.push(Mount { from, to, access: MountAccess::Read });
        assert_eq!(argv_of(&launch(), &odd).unwrap_err().kind(), Kind::Invalid);
        assert!(env_file(&Environment::empty().with("A", "b\nC=d")).is_err());
    }

    #[test]
    fn what_is_hidden_is_covered_inside_and_what_is_not_mounted_needs_no_cover() {
        let mut container = container();
        let project = PathBuf::from("/p");
        container.mounts.push(Mount { from: project.clone(), to: project, access: MountAccess::Write });
        let views = [
            ("/p/.bell", View::Hidden),
            ("/p/.bell/runs/r/agent", View::Open),
            ("/p/agents", View::ReadOnly),
            ("/home", View::Hidden),
        ];
        container.views = views.into_iter().map(|(path, view)| (path.into(), view)).collect();
        let steps = steps(&container, |_| Some(FileKind::Folder));
        let masks = masks(&steps, Path::new("/c"), &container.views);
        let options: Vec<String> = masks.iter().map(|mask| mask.to_option().unwrap()).collect();
        assert_eq!(
            options,
            [
                "type=bind,source=/c/p/.bell,target=/p/.bell,readonly",
                "type=bind,source=/p/.bell/runs/r/agent,target=/p/.bell/runs/r/agent",
                "type=bind,source=/p/agents,target=/p/agents,readonly",
            ]
        );
    }

    #[test]
    fn what_covers_a_folder_has_nothing_in_it_but_the_places_of_what_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let (project, covers) = (folder.path().join("p"), folder.path().join("covers"));
        fs::create_dir_all(project.join(".bell/runs/r/agent")).unwrap();
        for file in [".bell/api-key", ".bell/bell"] {
            fs::write(project.join(file), "x").unwrap();
        }
        let mut container = container();
        let (from, to) = (project.clone(), project.clone());
        container.mounts.push(Mount { from, to, access: MountAccess::Write });
        for (path, view) in
            [(".bell", View::Hidden), (".bell/runs/r/agent", View::Open), (".bell/bell", View::ReadOnly)]
        {
            container.views.set(project.join(path), view);
        }
        make_covers(&container, &covers).unwrap();
        let cover = cover_of(&covers, &project.join(".bell"));
        let mut names: Vec<_> =
            fs::read_dir(&cover).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["bell", "runs"]);
        assert!(cover.join("runs/r/agent").is_dir());
        assert_eq!(fs::read(cover.join("bell")).unwrap(), b"");
        assert_eq!(fs::metadata(cover.join("runs")).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn limits_user_and_mounts_are_the_engines_to_hold() {
        let mut launch = launch();
        launch.limits.memory_bytes = Some(1000);
        launch.limits.processes = Some(7);
        launch.limits.cpu_hundredths = Some(150);
        launch.user = Some(crate::user::User::find("0:0").unwrap());
        let mut container = container();
        let (from, to) = ("/a".into(), "/b".into());
        container.mounts.push(Mount { from, to, access: MountAccess::Read });
        let line = argv_of(&launch, &container).unwrap().join(" ");
        for part in [
            "--memory 1000",
            "--memory-swap 1000",
            "--cpus 1.50",
            "--pids-limit 7",
            "--user 0:0",
            "source=/a,target=/b,readonly",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
