//! What landlock has to allow so that a run has its views.
//!
//! Landlock only allows: a right on a folder holds for all below it, and nothing takes it back. So a folder with
//! something closed in it is not allowed itself, but all that is in it at this moment is, one by one.

use std::path::{Path, PathBuf};

use super::{View, Views};

/// What may be done with a path and all below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Allowed {
    /// The names in folders can be seen.
    List,
    /// It can be read and run.
    Read,
    /// It can be changed too.
    Change,
}

/// What to allow. `roots` is what may be reached at all; `list` says what is in a folder.
pub(crate) fn allowed(
    views: &Views,
    roots: &[(PathBuf, Allowed)],
    list: &impl Fn(&Path) -> Vec<PathBuf>,
) -> Vec<(PathBuf, Allowed)> {
    let mut rules = Vec::new();
    for (root, most) in roots {
        expand(views, root, *most, list, &mut rules);
    }
    rules
}

fn expand(
    views: &Views,
    path: &Path,
    most: Allowed,
    list: &impl Fn(&Path) -> Vec<PathBuf>,
    rules: &mut Vec<(PathBuf, Allowed)>,
) {
    let right = |view: View| match view {
        View::Hidden => None,
        View::ReadOnly => Some(most.min(Allowed::Read)),
        View::Open => Some(most),
    };
    let here = right(views.of(path));
    let is_more_closed = |view: View| right(view) < here;
    if views.below(path).any(|(_, view)| is_more_closed(view)) {
        let can_be_read = views.below(path).all(|(_, view)| right(view) >= Some(Allowed::Read));
        rules.push((path.to_owned(), if can_be_read { Allowed::Read } else { Allowed::List }));
        list(path).iter().for_each(|inner| expand(views, inner, most, list, rules));
        return;
    }
    rules.extend(here.map(|here| (path.to_owned(), here)));
    // What is more open than the folder around it, and whatever is closed in that again.
    let is_door = |inner: &Path, view: View| right(views.around(inner)) == here && right(view) > here;
    let doors: Vec<PathBuf> = views
        .below(path)
        .filter(|(inner, view)| is_door(inner, *view))
        .map(|(inner, _)| inner.to_owned())
        .collect();
    doors.iter().for_each(|inner| expand(views, inner, most, list, rules));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(of: &[(&str, View)]) -> Views {
        of.iter().map(|(path, view)| (PathBuf::from(path), *view)).collect()
    }

    /// `/` has `p` and `etc`; `/p` has `.bell`, `agents` and `src`.
    fn list(path: &Path) -> Vec<PathBuf> {
        let names: &[&str] = match path.to_str() {
            Some("/") => &["p", "etc"],
            Some("/p") => &[".bell", "agents", "src"],
            _ => &[],
        };
        names.iter().map(|name| path.join(name)).collect()
    }

    fn of(views: &Views, roots: &[(&str, Allowed)]) -> Vec<(String, Allowed)> {
        let roots: Vec<_> = roots.iter().map(|(root, most)| (PathBuf::from(root), *most)).collect();
        let rules = allowed(views, &roots, &list);
        rules.into_iter().map(|(path, allowed)| (path.display().to_string(), allowed)).collect()
    }

    fn rule(path: &str, allowed: Allowed) -> (String, Allowed) {
        (path.to_owned(), allowed)
    }

    #[test]
    fn what_is_beside_a_hidden_folder_is_allowed_piece_by_piece() {
        let views = views(&[
            ("/p/.bell", View::Hidden),
            ("/p/.bell/bin", View::ReadOnly),
            ("/p/agents", View::ReadOnly),
        ]);
        let expected = [
            rule("/", Allowed::List),
            rule("/p", Allowed::List),
            rule("/p/.bell/bin", Allowed::Read),
            rule("/p/agents", Allowed::Read),
            rule("/p/src", Allowed::Change),
            rule("/etc", Allowed::Change),
        ];
        assert_eq!(of(&views, &[("/", Allowed::Change)]), expected);
    }

    #[test]
    fn a_folder_with_something_read_only_in_it_can_be_read_as_a_whole() {
        let views = views(&[("/p/agents", View::ReadOnly)]);
        let rules = of(&views, &[("/p", Allowed::Change)]);
        assert_eq!(
            rules,
            [
                rule("/p", Allowed::Read),
                rule("/p/.bell", Allowed::Change),
                rule("/p/agents", Allowed::Read),
                rule("/p/src", Allowed::Change)
            ]
        );
    }

    #[test]
    fn a_folder_in_a_hidden_home_is_allowed_without_what_is_hidden_in_it() {
        let views = views(&[("/home", View::Hidden), ("/p", View::Open), ("/p/.bell", View::Hidden)]);
        let nested = views.iter().map(|(path, view)| {
            let path = if path == Path::new("/home") {
                path.to_owned()
            } else {
                Path::new("/home/ann").join(path.strip_prefix("/").unwrap())
            };
            (path, view)
        });
        let nested: Views = nested.collect();
        let list = |path: &Path| match path.to_str() {
            Some("/home/ann/p") => vec![path.join(".bell"), path.join("src")],
            _ => Vec::new(),
        };
        let rules = allowed(&nested, &[("/home".into(), Allowed::Change)], &list);
        let expected = [("/home/ann/p", Allowed::List), ("/home/ann/p/src", Allowed::Change)]
            .map(|(path, right)| (PathBuf::from(path), right));
        assert_eq!(rules, expected);
    }

    #[test]
    fn nothing_beyond_a_root_that_may_only_be_read_is_changed() {
        let views = views(&[("/etc/shadow", View::Hidden)]);
        let rules = of(&views, &[("/p", Allowed::Read), ("/etc", Allowed::Read)]);
        assert_eq!(rules, [rule("/p", Allowed::Read), rule("/etc", Allowed::List)]);
    }
}
