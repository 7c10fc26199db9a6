//! What an agent can see and do: its environment, its descriptors, its rights, its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use bell_runner::env::Environment;
use bell_runner::launch::{AgentFile, Landlock, Stdin};
use bell_runner::user::User;

use crate::support::{Run, program, until};

#[tokio::test]
async fn the_agent_finds_exactly_what_it_was_given_in_its_environment() {
    let run = Run::of("");
    let run = run.with(|launch| {
        launch.argv = vec!["/usr/bin/env".into()];
        launch.env = Environment::empty().with("KEY", "a value; $(id)");
    });
    run.end().await;
    let nonce = &run.launch.nonce;
    assert_eq!(
        run.out(),
        format!("BELL_RUN=run-1\nBELL_RUN_MARK={nonce}\nFROM_HOOK=yes\nKEY=a value; $(id)\n")
    );
}

#[tokio::test]
async fn the_agent_has_three_descriptors_whatever_the_daemon_was_started_with() {
    // Builtins only: a pipe or a redirection would be a descriptor of the shell's own.
    let script = "i=0; while [ $i -lt 256 ]; do [ -h /proc/$$/fd/$i ] && echo $i; i=$((i+1)); done; \
                  ls -l /proc/$$/fd/0 | sed 's/.*-> //'";
    let run = Run::of(script);
    let file = run.path("launch.json");
    fs::write(&file, serde_json::to_vec(&run.launch).unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test starts a daemon with descriptors to inherit")]
    let mut daemon = Command::new("/bin/sh");
    let script = "exec 7</etc/passwd 9>/dev/null; exec \"$0\" spawn \"$1\"";
    let mut daemon =
        daemon.args(["-c", script]).arg(program()).arg(file).stdout(Stdio::null()).spawn().unwrap();
    until(|| run.launch.run_dir.join("exit.json").exists().then_some(())).await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(run.out(), "0\n1\n2\n/dev/null\n");
}

#[tokio::test]
async fn the_agent_has_no_capability_and_can_get_none() {
    let run = Run::of("grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status");
    run.end().await;
    let lines: Vec<String> = run.out().lines().map(|line| line.replace('\t', " ")).collect();
    let none = "0000000000000000";
    let expected = [
        format!("CapPrm: {none}"),
        format!("CapEff: {none}"),
        if is_root() { format!("CapBnd: {none}") } else { lines[2].clone() },
        format!("CapAmb: {none}"),
        "NoNewPrivs: 1".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn the_agent_leads_a_session_apart_from_its_supervisor() {
    let run = Run::of("echo $$; cut -d' ' -f6 /proc/$$/stat");
    run.end().await;
    let out = run.out();
    let (pid, session) = out.trim().split_once('\n').unwrap();
    assert_eq!(pid, session);
}

#[tokio::test]
async fn arguments_with_shell_syntax_are_arguments() {
    let payload = "$(touch x); `id` && rm -rf \"$HOME\" > y | z\n'";
    let run = Run::of("").with(|launch| launch.argv = vec!["printf".into(), "%s".into(), payload.into()]);
    run.end().await;
    assert_eq!(run.out(), payload);
}

#[tokio::test]
async fn the_agent_reads_its_text_and_finds_its_files() {
    let run = Run::of("cat; pwd; cat prompt.md; ls -l prompt.md | cut -c1-10").with(|launch| {
        launch.stdin = Stdin::Text("on standard input\n".into());
        launch.files.push(AgentFile { name: "prompt.md".into(), content: "in a file\n".into() });
    });
    run.end().await;
    let folder = run.launch.agent_dir().display().to_string();
    assert_eq!(run.out(), format!("on standard input\n{folder}\nin a file\n-rw-------\n"));
}

#[tokio::test]
async fn the_agent_can_not_take_over_its_supervisor() {
    // The supervisor is the parent; as root without capabilities it is still the same user.
    let run = Run::of("cat /proc/$PPID/environ > /dev/null 2>&1 && echo read its environment; true");
    run.end().await;
    assert_eq!(run.out(), "");
}

#[tokio::test]
async fn landlock_denies_what_was_not_allowed() {
    assert!(bell_runner::stage::has_landlock(), "this test needs a kernel with landlock");
    let script = "cat $HERE/open/in; cat $HERE/closed/in; echo new > $HERE/open/new; echo new > $HERE/writable/new; \
                  ls $HERE/writable; kill -0 $PPID 2>/dev/null && echo reached its supervisor; true";
    let run = Run::of(script);
    for folder in ["open", "closed", "writable"] {
        fs::create_dir(run.path(folder)).unwrap();
        fs::write(run.path(folder).join("in"), format!("{folder}\n")).unwrap();
    }
    let (read, write) = (vec![run.path("open")], vec![run.path("writable"), run.launch.agent_dir()]);
    let run = run.with(|launch| launch.landlock = Some(Landlock { read, write, system: true }));
    let exit = run.end().await;
    assert_eq!(run.out(), "open\nin\nnew\n", "{exit:?} {}", run.text(bell_runner::logs::Stream::Err));
    assert!(!run.path("open/new").exists());
}

#[tokio::test]
async fn the_agent_runs_as_another_user_and_can_not_read_the_daemons_files() {
    if !is_root() {
        eprintln!("only root can switch users: not tried");
        return;
    }
    let run = Run::of(
        "id -un; id -G; cat $HERE/secret; cat ../launch.json; ls ..; echo mine > own; cat own prompt.md",
    );
    fs::set_permissions(run.folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    fs::write(run.path("secret"), "canary\n").unwrap();
    fs::set_permissions(run.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let nobody = User::find("nobody").unwrap();
    let gid = nobody.gid;
    let run = run.with(|launch| {
        launch.user = Some(nobody);
        launch.files.push(AgentFile { name: "prompt.md".into(), content: "prompt\n".into() });
    });
    run.end().await;
    assert_eq!(run.out(), format!("nobody\n{gid}\nmine\nprompt\n"));
}

#[tokio::test]
async fn what_an_agent_of_another_user_leaves_is_ended_with_its_supervisor() {
    if !is_root() {
        eprintln!("only root can switch users: not tried");
        return;
    }
    let run = Run::of("setsid sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' & wait");
    fs::set_permissions(run.folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let run = run.with(|launch| launch.user = Some(User::find("nobody").unwrap()));
    let handle = run.start().await;
    until(|| (run.out() == "up\n").then_some(())).await;
    crate::support::kill(handle.pid(), rustix::process::Signal::KILL);
    crate::support::within(handle.wait()).await.unwrap();
    assert_eq!(run.survivors(), [0; 0]);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
