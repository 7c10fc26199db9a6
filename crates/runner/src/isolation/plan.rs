//! The mounts that give a run its views, in the order in which they are to be made.

use std::path::{Path, PathBuf};

use super::{View, Views};

/// What is at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Folder,
    File,
}

impl Kind {
    /// What is at a path on this machine.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let about = std::fs::metadata(path).ok()?;
        Some(if about.is_dir() { Self::Folder } else { Self::File })
    }
}

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Something empty over a path.
    Cover(PathBuf, Kind),
    /// What was at a path before all steps, again. In a covered folder its place has to be made first.
    Restore(PathBuf, Kind),
    /// Nothing at a path can be changed through this mount from now on.
    Seal(PathBuf),
}

/// The steps for these views. `kind` says what is at a path; what is not there needs no mount.
///
/// Covered folders are sealed last: until then places are made in them.
pub(crate) fn plan(views: &Views, kind: impl Fn(&Path) -> Option<Kind>) -> Vec<Step> {
    let (mut steps, mut covers) = (Vec::new(), Vec::new());
    for (path, view) in views.iter() {
        let around = views.around(path);
        let Some(kind) = kind(path).filter(|_| view != around) else { continue };
        let path = path.to_owned();
        match view {
            View::Hidden => {
                if kind == Kind::Folder {
                    covers.push(Step::Seal(path.clone()));
                }
                steps.push(Step::Cover(path, kind));
            }
            View::Open => steps.push(Step::Restore(path, kind)),
            View::ReadOnly => steps.extend([Step::Restore(path.clone(), kind), Step::Seal(path)]),
        }
    }
    steps.append(&mut covers);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(of: &[(&str, View)]) -> Views {
        of.iter().map(|(path, view)| (PathBuf::from(path), *view)).collect()
    }

    fn folder(path: &str) -> (PathBuf, Kind) {
        (path.into(), Kind::Folder)
    }

    fn folders(_: &Path) -> Option<Kind> {
        Some(Kind::Folder)
    }

    fn cover(path: &str) -> Step {
        let (path, kind) = folder(path);
        Step::Cover(path, kind)
    }

    fn restore(path: &str) -> Step {
        let (path, kind) = folder(path);
        Step::Restore(path, kind)
    }

    fn seal(path: &str) -> Step {
        Step::Seal(path.into())
    }

    #[test]
    fn a_hidden_folder_is_covered_what_is_open_in_it_restored_and_the_cover_sealed_last() {
        let views = views(&[
            ("/p/.bell/runs/r/agent", View::Open),
            ("/p/.bell", View::Hidden),
            ("/p/.bell/bin", View::ReadOnly),
        ]);
        let expected = [
            cover("/p/.bell"),
            restore("/p/.bell/bin"),
            seal("/p/.bell/bin"),
            restore("/p/.bell/runs/r/agent"),
            seal("/p/.bell"),
        ];
        assert_eq!(plan(&views, folders), expected);
    }

    #[test]
    fn a_folder_in_a_hidden_home_is_restored_before_what_is_hidden_in_it() {
        let views = views(&[
            ("/home", View::Hidden),
            ("/home/ann/fleet", View::Open),
            ("/home/ann/fleet/.bell", View::Hidden),
        ]);
        let expected = [
            cover("/home"),
            restore("/home/ann/fleet"),
            cover("/home/ann/fleet/.bell"),
            seal("/home"),
            seal("/home/ann/fleet/.bell"),
        ];
        assert_eq!(plan(&views, folders), expected);
    }

    #[test]
    fn what_is_as_its_folder_and_what_is_not_there_needs_no_mount() {
        let views = views(&[
            ("/a", View::Open),
            ("/b", View::Hidden),
            ("/b/c", View::Hidden),
            ("/d", View::ReadOnly),
        ]);
        let kind = |path: &Path| (path != Path::new("/d")).then_some(Kind::Folder);
        assert_eq!(plan(&views, kind), [cover("/b"), seal("/b")]);
    }

    #[test]
    fn a_hidden_file_is_covered_and_not_sealed() {
        let views = views(&[("/etc/shadow", View::Hidden)]);
        assert_eq!(plan(&views, |_| Some(Kind::File)), [Step::Cover("/etc/shadow".into(), Kind::File)]);
    }
}
