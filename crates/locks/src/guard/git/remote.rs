//! A remote: what it has, and moving it.

use std::collections::HashMap;

use bell_core::key::Key;
use bell_core::lock::Fence;

use super::error::{Failure, GuardError};
use super::program::{Git, Run, redacted};
use super::record;
use super::refspec::{self, Refspec};

/// How often to look again at a ref that moves while it is looked at.
const LOOKS: u32 = 10;

/// A remote of a repository.
pub(super) struct Remote {
    /// As the user named it: so the push updates what the repository knows of its remote.
    given: String,
    /// Where pushes go. It is read there too: another URL may show an older state.
    url: String,
}

/// What a remote showed.
pub(super) struct Seen {
    /// The ref of the fence.
    name: String,
    /// The object it points at.
    pub(super) mark: Option<String>,
    /// The fence in it.
    pub(super) fence: Option<Fence>,
    /// What the branches were that may be set.
    leased: HashMap<String, String>,
}

impl Remote {
    pub(super) fn find(git: &Git, given: &str) -> Result<Self, GuardError> {
        refspec::check_plain(given)?;
        let found = git.run(["remote", "get-url", "--push", "--all", given])?;
        let mut urls = found.out.lines();
        let url = match (found.succeeded(), urls.next(), urls.next()) {
            (true, Some(url), None) => url.to_owned(),
            (true, _, Some(_)) => return Err(GuardError::SeveralUrls { remote: given.to_owned() }),
            // Not the name of a remote: a URL or a path.
            _ => given.to_owned(),
        };
        refspec::check_plain(&url)?;
        Ok(Self { given: given.to_owned(), url })
    }

    /// The remote as it may be shown.
    pub(super) fn shown(&self) -> String {
        redacted(&self.given)
    }

    /// The fence of a resource, and the branches that may be set, as they are now.
    pub(super) fn look(&self, git: &Git, resource: &Key, refspecs: &[Refspec]) -> Result<Seen, GuardError> {
        let name = record::ref_name(resource);
        for _ in 0..LOOKS {
            let mut leased = self.list(git, &name, refspecs)?;
            let Some(mark) = leased.remove(&name) else {
                return Ok(Seen { name, mark: None, fence: None, leased });
            };
            // None: it has moved since it was listed, and what it pointed at is not to be had any more.
            if let Some(text) = self.read(git, &name, &mark)? {
                let fence = record::fence(&text, resource).map_err(|reason| GuardError::Damaged {
                    remote: self.shown(),
                    name: name.clone(),
                    reason,
                })?;
                return Ok(Seen { name, mark: Some(mark), fence: Some(fence), leased });
            }
        }
        Err(GuardError::Contended { remote: self.shown(), tries: LOOKS })
    }

    /// The objects that these refs point at.
    fn list(
        &self,
        git: &Git,
        name: &str,
        refspecs: &[Refspec],
    ) -> Result<HashMap<String, String>, GuardError> {
        let wanted: Vec<&str> =
            refspecs.iter().filter_map(|refspec| refspec.leased.as_deref()).chain([name]).collect();
        let listed = git.run(["ls-remote", "--quiet", "--", &self.url].iter().chain(&wanted))?;
        if !listed.succeeded() {
            return Err(self.unreadable(listed));
        }
        let lines = listed.out.lines().filter_map(|line| line.split_once('\t'));
        // It lists whatever ends like that, too.
        let exact = lines.filter(|(_, name)| wanted.contains(name));
        Ok(exact.map(|(object, name)| (name.to_owned(), object.to_owned())).collect())
    }

    /// What the ref of a fence points at.
    fn read(&self, git: &Git, name: &str, object: &str) -> Result<Option<String>, GuardError> {
        let read = git.run(["cat-file", "blob", object])?;
        if read.succeeded() {
            return Ok(Some(read.out));
        }
        let quietly = ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"];
        let alone = ["--no-recurse-submodules", "--refmap=", "--", &self.url, name];
        let fetched = git.run(["fetch"].iter().chain(&quietly).chain(&alone))?;
        let read = git.run(["cat-file", "blob", object])?;
        match (read.succeeded(), fetched.succeeded()) {
            (true, _) => Ok(Some(read.out)),
            (false, true) if git.run(["cat-file", "-e", object])?.succeeded() => {
                let reason = "it points at something else than the mark of a fence";
                Err(GuardError::Damaged { remote: self.shown(), name: name.to_owned(), reason })
            }
            (false, true) => Ok(None),
            (false, false) => Err(self.unreadable(fetched)),
        }
    }

    /// Moves the branches and the ref of the fence together, if the latter is still what was seen.
    pub(super) fn push(
        &self,
        git: &Git,
        seen: &Seen,
        mark: &str,
        refspecs: &[Refspec],
    ) -> Result<(), Failure> {
        let lease = |name: &str, object: Option<&String>| {
            format!("--force-with-lease={name}:{}", object.map_or("", String::as_str))
        };
        // Submodules would be pushed before, on their own, and not be part of what is all or nothing.
        let mut arguments =
            ["push", "--porcelain", "--atomic", "--recurse-submodules=no"].map(str::to_owned).to_vec();
        arguments.push(lease(&seen.name, seen.mark.as_ref()));
        let leased = refspecs.iter().filter_map(|refspec| refspec.leased.as_deref());
        arguments.extend(leased.map(|name| lease(name, seen.leased.get(name))));
        arguments.extend(["--".to_owned(), self.given.clone()]);
        arguments.extend(refspecs.iter().map(|refspec| refspec.text.clone()));
        arguments.push(format!("{mark}:{}", seen.name));
        let pushed = git.run(arguments).map_err(Failure::NotRun)?;
        if pushed.succeeded() { Ok(()) } else { Err(Failure::read(pushed)) }
    }

    fn unreadable(&self, run: Run) -> GuardError {
        GuardError::Remote { remote: self.shown(), said: run.said }
    }
}
