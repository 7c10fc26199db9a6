//! A process that is born in its control group.
//!
//! To move a process into another group the kernel first waits until every processor has passed a quiet point, 10 to
//! 15 ms, which was most of an agent's start. A child that `clone3` puts into a group (`CLONE_INTO_CGROUP`, Linux 5.7) waits for
//! nothing. The standard library does not offer that, so here is what it does to start a program, and no more: streams,
//! signals, `execve`, and word of a failure through a pipe that closes by itself.
//!
//! Any failure means that nothing runs. What to do then is the caller's to decide: a kernel that is older, or a container
//! whose filter does not let `clone3` pass, still lets processes be moved.
//!
//! This is the only module with unsafe code. Whatever the child needs is made before there is a child. It shares no memory
//! with this process, and calls only what may be called while another thread has a lock that nobody will ever free in
//! the copy.

#![expect(unsafe_code, reason = "safe Rust has no way to start a process in a control group")]

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use nix::errno::Errno;
use nix::libc::{self, c_char, c_int};
use rustix::process::Pid;

/// Every signal that this process handles has its usual effect in the child, from the first moment on.
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// What a process ends with that could not become a program. Nobody looks: the reason went through the pipe.
const NOT_RUN: c_int = 127;

/// Starts a program in `group`, with these as its standard streams. Returns when the program has taken over.
///
/// Of `command` the program, a path, the arguments and the variables count; the child has no other variables. It has to
/// be waited for like any child.
///
/// # Errors
/// If it can't be started this way. Nothing runs then, but there may be a child to wait for that has ended.
pub(crate) fn born_in(
    group: &Path,
    command: &Command,
    name: &str,
    streams: &[OwnedFd; 3],
) -> io::Result<Pid> {
    let program = Program::of(command, name)?;
    let streams = streams.each_ref().map(AsRawFd::as_raw_fd);
    if streams.iter().any(|stream| *stream <= libc::STDERR_FILENO) {
        // One would take the place of another before that is in its own.
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let group = File::open(group)?;
    let (mut word, says) = io::pipe()?;
    let arguments = CloneArguments {
        flags: CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD.unsigned_abs().into(),
        cgroup: group.as_raw_fd().unsigned_abs().into(),
        ..CloneArguments::default()
    };
    // SAFETY: the arguments are as the kernel has them, and only read. No memory is shared (there is no CLONE_VM) and no
    // stack is given, so both processes go on from here, each on its own copy of everything, as after `fork`.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) };
    if pid == 0 {
        // SAFETY: this is the child, and has just begun.
        unsafe { program.take_over(streams, says.as_raw_fd()) }
    }
    let pid = u32::try_from(pid).map_err(|_| io::Error::last_os_error())?;
    // The child has the only one now, and loses it when it becomes the program.
    drop(says);
    let mut reason = Vec::new();
    word.read_to_end(&mut reason)?;
    match reason.try_into() {
        Ok(errno) => Err(io::Error::from_raw_os_error(c_int::from_ne_bytes(errno))),
        Err(_) => Pid::from_raw(pid.cast_signed()).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// `struct clone_args` of the kernel, as it was when it got its last field.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// What to become, as `execve` takes it.
struct Program {
    file: CString,
    /// Pointers to the texts below, with a null behind the last. A text stays in its place when its `CString` is moved.
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    _texts: [Vec<CString>; 2],
}

impl Program {
    fn of(command: &Command, name: &str) -> io::Result<Self> {
        let text = |part: &OsStr| CString::new(part.as_bytes()).map_err(io::Error::from);
        let arguments = iter::once(OsStr::new(name)).chain(command.get_args()).map(text);
        let arguments = arguments.collect::<io::Result<Vec<_>>>()?;
        let variables = command.get_envs().filter_map(|(name, value)| Some([name, value?]));
        let variables = variables.map(|variable| text(&variable.join(OsStr::new("="))));
        let variables = variables.collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            file: text(command.get_program())?,
            argv: pointers(&arguments),
            envp: pointers(&variables),
            _texts: [arguments, variables],
        })
    }

    /// Becomes the program: with these streams, and with signals as every program expects them. This one ignores broken
    /// pipes, which the standard library would make good as well.
    ///
    /// # Safety
    /// Only for a process that has just been made for it. All it may use is what its parent has made ready, since a lock
    /// that another thread of the parent had is never freed here, that of the allocator included.
    unsafe fn take_over(&self, streams: [RawFd; 3], says: RawFd) -> ! {
        // SAFETY: all of these may be called in a handler of signals (`man 7 signal-safety`), so they neither allocate nor
        // lock. The set is plain data that is written before it is read; the pointers of `self` are to texts that it
        // owns, with a null behind the last.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            let [input, output, complaints] = streams;
            let is_ready = libc::dup2(input, libc::STDIN_FILENO) >= 0
                && libc::dup2(output, libc::STDOUT_FILENO) >= 0
                && libc::dup2(complaints, libc::STDERR_FILENO) >= 0
                && libc::signal(libc::SIGPIPE, libc::SIG_DFL) != libc::SIG_ERR
                && libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) == 0;
            if is_ready {
                libc::execve(self.file.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
            }
            let reason = Errno::last_raw();
            libc::write(says, (&raw const reason).cast(), size_of_val(&reason));
            libc::_exit(NOT_RUN)
        }
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain(iter::once(ptr::null())).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;
    use crate::cgroup::testing::TestGroup;
    use crate::command::quiet;

    fn null() -> OwnedFd {
        File::options().read(true).write(true).open("/dev/null").unwrap().into()
    }

    fn command(program: &str, arguments: &[&str]) -> Command {
        let mut command = quiet(program);
        command.args(arguments).env("KEY", "a value");
        command
    }

    /// What a child of this group prints, and how it ended.
    fn printed(group: &TestGroup, program: &str, arguments: &[&str]) -> (String, i32) {
        let (mut out, their_out) = io::pipe().unwrap();
        let streams = [null(), their_out.into(), null()];
        let pid = born_in(group.path(), &command(program, arguments), "its-name", &streams).unwrap();
        drop(streams);
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        (text, status.exit_status().unwrap())
    }

    /// The same of a child that the standard library starts.
    fn printed_usually(program: &str, arguments: &[&str]) -> String {
        let output = command(program, arguments).stdout(Stdio::piped()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_child_is_in_its_group_from_its_first_instruction() {
        let Some(group) = TestGroup::make() else { return };
        let (groups, code) = printed(&group, "/bin/cat", &["/proc/self/cgroup"]);
        let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
        assert_eq!(Path::new(own).file_name(), group.path().file_name());
        assert_eq!(code, 0);
    }

    #[test]
    fn a_child_has_the_name_the_arguments_and_the_variables_that_it_was_given_and_no_others() {
        let Some(group) = TestGroup::make() else { return };
        let script = "tr '\\0' '\\n' <\"/proc/$$/cmdline\"; tr '\\0' '\\n' <\"/proc/$$/environ\"; exit 7";
        let (seen, code) = printed(&group, "/bin/sh", &["-c", script, "an 'argument'"]);
        assert_eq!(seen, format!("its-name\n-c\n{script}\nan 'argument'\nKEY=a value\n"));
        assert_eq!(code, 7);
    }

    #[test]
    fn no_signal_is_blocked_or_handled_in_a_child_and_a_broken_pipe_ends_it() {
        let Some(group) = TestGroup::make() else { return };
        // SAFETY: the set is written before it is read; what this thread blocks is nobody else's affair.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut()), 0);
        }
        let (status, _) = printed(&group, "/bin/cat", &["/proc/self/status"]);
        let signals = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        assert_eq!((signals("SigBlk:"), signals("SigCgt:")), (0, 0));
        // This process ignores it, as every program in Rust does.
        assert_eq!(signals("SigIgn:") & (1 << (libc::SIGPIPE - 1)), 0);
    }

    #[test]
    fn a_child_gets_no_descriptor_but_its_streams_that_is_not_meant_for_everybody() {
        let Some(group) = TestGroup::make() else { return };
        let (seen, _) = printed(&group, "/bin/ls", &["/proc/self/fd"]);
        assert_eq!(seen, printed_usually("/bin/ls", &["/proc/self/fd"]));
    }

    #[test]
    fn what_can_not_be_run_is_told_and_has_ended() {
        let Some(group) = TestGroup::make() else { return };
        let born = |program: &str| {
            born_in(group.path(), &quiet(program), "its-name", &[null(), null(), null()]).unwrap_err()
        };
        assert_eq!(born("/nowhere/at/all").kind(), io::ErrorKind::NotFound);
        assert_eq!(born("/etc/passwd").kind(), io::ErrorKind::PermissionDenied);
        assert!(group.is_left_by_everybody());
    }

    #[test]
    fn nothing_is_born_in_an_ordinary_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(born_in(folder.path(), &quiet("/bin/true"), "true", &[null(), null(), null()]).is_err());
    }
}
