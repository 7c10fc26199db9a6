//! What to publish.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// Files at the most that a list may name: what is more belongs into a folder.
const MAX_LISTED: usize = 10_000;

/// What to publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A folder with everything in it.
    Folder(PathBuf),
    /// Files that appear together in one folder: where each lies, and its name in there.
    Together(Vec<(PathBuf, String)>),
}

/// Whether the destination is a file or a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    File,
    Folder,
}

impl Source {
    /// One path is itself, file or folder; several appear together under their own names.
    ///
    /// # Errors
    /// If there is none, one can't be looked at, or two have the same name.
    pub fn of(paths: &[PathBuf]) -> Result<Self> {
        let [one] = paths else {
            let named = paths.iter().map(|path| Ok((path.clone(), own_name(path)?)));
            return Self::together(named.collect::<Result<_>>()?);
        };
        let seen = one.metadata().map_err(|error| Error::io("publish", one, error))?;
        match (seen.is_file(), seen.is_dir()) {
            (true, _) => Ok(Self::File(one.clone())),
            (_, true) => Ok(Self::Folder(one.clone())),
            _ => {
                Err(Error::new(Kind::Invalid, format!("publish {}: it is no file or folder", one.display()))
                    .hint("Publish files and folders; pipes and devices stay where they are."))
            }
        }
    }

    /// A list: one path in each line, found from `base`, with ` -> name` where it shall have another name.
    ///
    /// # Errors
    /// If a line can't be understood, or two files have the same name.
    pub fn manifest(text: &str, base: &Path) -> Result<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry = |line: &str| match line.split_once(" ->") {
            Some((path, name)) => Ok((base.join(path.trim()), name.trim().to_owned())),
            None => Ok((base.join(line), own_name(Path::new(line))?)),
        };
        Self::together(lines.map(entry).collect::<Result<_>>()?)
    }

    fn together(files: Vec<(PathBuf, String)>) -> Result<Self> {
        let refused = |reason: String| {
            Error::new(Kind::Invalid, format!("publish the files together: {reason}"))
                .hint("Give each file a name of its own, without .. and without a slash in front.")
        };
        if files.is_empty() || files.len() > MAX_LISTED {
            return Err(refused(format!("there are {} of them, not 1 to {MAX_LISTED}", files.len())));
        }
        let mut names: Vec<&str> = files.iter().map(|(_, name)| name.as_str()).collect();
        if let Some(wrong) = names.iter().find(|name| !is_inside(name)) {
            return Err(refused(format!("{wrong:?} is no name inside a folder")));
        }
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(refused(format!("two of them are named {:?}", pair[0]))),
            None => Ok(Self::Together(files)),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        if matches!(self, Self::File(_)) { Shape::File } else { Shape::Folder }
    }

    /// Refuses to copy a folder into itself.
    pub(super) fn check(&self, parent: &Path) -> Result<()> {
        let Self::Folder(path) = self else { return Ok(()) };
        let real = path.canonicalize().map_err(|error| Error::io("publish", path, error))?;
        if !parent.starts_with(&real) {
            return Ok(());
        }
        let what = format!("publish {}: the destination is inside it", path.display());
        Err(Error::new(Kind::Invalid, what).hint("Name a destination outside of the folder."))
    }
}

fn own_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Error::new(Kind::Invalid, format!("publish {}: it has no plain name", path.display()))
            .hint("Name files whose names are UTF-8.")
    })
}

/// Whether a name leads to somewhere below, and nowhere else.
fn is_inside(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && part.len() <= 255;
    name.split('/').all(plain) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_files_their_names() {
        let list = "# what belongs together\n\nout/a.json\nout/b.json -> data/b.json\n";
        let Source::Together(files) = Source::manifest(list, Path::new("/srv")).unwrap() else { panic!() };
        assert_eq!(files[0], (PathBuf::from("/srv/out/a.json"), "a.json".to_owned()));
        assert_eq!(files[1], (PathBuf::from("/srv/out/b.json"), "data/b.json".to_owned()));
    }

    #[test]
    fn a_list_that_leads_elsewhere_or_says_a_name_twice_is_refused() {
        for list in ["", "a -> ../b", "a -> /etc/passwd", "a -> b//c", "a -> ", "x/a\ny/a", "a -> ."] {
            assert_eq!(Source::manifest(list, Path::new("/")).unwrap_err().kind(), Kind::Invalid, "{list:?}");
        }
    }
}
