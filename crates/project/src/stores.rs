//! Which stores a project uses, and why.
//!
//! Pure: URLs in, absolute URLs out. Whether there is a store at a URL is found out by whoever opens it.
//!
//! | store | the first of |
//! | --- | --- |
//! | work | `--store`, `BELL_STORE`, `store` in `config.toml`, `.bell/bell.db` |
//! | locks | `--store`, `locks` in `config.toml`, the work store |

use std::path::Path;

use crate::locate::STATE_FOLDER;
use crate::settings::ProjectSettings;

/// The file of the embedded store, in the state folder of a project or of a user.
pub const STORE_FILE: &str = "bell.db";

/// Where a store URL was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// By the environment.
    Environment,
    /// In the project's `config.toml`.
    Settings,
    /// Nowhere: the embedded store of the project.
    Project,
    /// Nowhere, and there is no project: the embedded store of the user.
    User,
}

impl Origin {
    /// In one word, for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Settings => "settings",
            Self::Project => "project",
            Self::User => "user",
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Flag => "given by --store",
            Self::Environment => "set by BELL_STORE",
            Self::Settings => "set in config.toml",
            Self::Project => "the default of the project",
            Self::User => "the default of this user: there is no project here",
        }
    }

    /// Whether nothing names the store: it may be created where it is missing, and is empty until then.
    pub const fn is_default(self) -> bool {
        matches!(self, Self::Project | Self::User)
    }
}

/// A store, and where its URL was set.
#[derive(Clone, PartialEq, Eq)]
pub struct ChosenStore {
    /// The URL, with its password; a path in it is absolute.
    pub url: String,
    /// Where it was set.
    pub origin: Origin,
}

/// The stores of a project.
#[derive(Clone, PartialEq, Eq)]
pub struct Stores {
    /// Jobs, runs, keys and history.
    pub work: ChosenStore,
    /// Locks. The same store, unless the project names another.
    pub locks: ChosenStore,
}

/// The stores of the project in `root`. A named store is one that the command line or the environment names; one from the command
/// line is the only store that the command uses.
pub fn resolve(named: Option<&ChosenStore>, settings: &ProjectSettings, root: &Path) -> Stores {
    let set = |url: &str| ChosenStore { url: absolute(url, root), origin: Origin::Settings };
    let work = match (named, &settings.store) {
        (Some(named), _) => ChosenStore { url: absolute(&named.url, root), origin: named.origin },
        (None, Some(url)) => set(url.expose()),
        (None, None) => ChosenStore { url: embedded(&root.join(STATE_FOLDER)), origin: Origin::Project },
    };
    let locks = match &settings.locks {
        Some(url) if work.origin != Origin::Flag => set(url.expose()),
        _ => work.clone(),
    };
    Stores { work, locks }
}

/// The URL of the embedded store in a state folder.
pub fn embedded(state: &Path) -> String {
    format!("sqlite:{}", state.join(STORE_FILE).display())
}

/// The URL with a relative path in it resolved against `base`, so that it means the same in every folder and process.
pub fn absolute(url: &str, base: &Path) -> String {
    let Some(path) = path_of(url).filter(|path| path.is_relative()) else { return url.to_owned() };
    let scheme = url.split(':').next().unwrap_or_default();
    let path: std::path::PathBuf = base.join(path).components().collect();
    format!("{scheme}:{}", path.display())
}

/// The path of a store that is a file or a folder.
pub fn path_of(url: &str) -> Option<&Path> {
    let (scheme, rest) = url.split_once(':')?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    // `sqlite://host` is refused where it is opened, in its own words.
    let is_host = rest.starts_with("//") && !path.starts_with('/');
    (matches!(scheme, "sqlite" | "file") && !path.is_empty() && !is_host).then(|| Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::StoreUrl;

    fn settings(store: Option<&str>, locks: Option<&str>) -> ProjectSettings {
        let url = |text: &str| StoreUrl::parse(text).unwrap();
        ProjectSettings { store: store.map(url), locks: locks.map(url), ..ProjectSettings::default() }
    }

    fn resolved(
        named: Option<(&str, Origin)>,
        store: Option<&str>,
        locks: Option<&str>,
    ) -> [(String, Origin); 2] {
        let named = named.map(|(url, origin)| ChosenStore { url: url.to_owned(), origin });
        let stores = resolve(named.as_ref(), &settings(store, locks), Path::new("/p"));
        [stores.work, stores.locks].map(|store| (store.url, store.origin))
    }

    #[test]
    fn the_flag_counts_before_the_environment_the_settings_and_the_default() {
        let of = |url: &str, origin| (url.to_owned(), origin);
        let flag = of("redis://f", Origin::Flag);
        let environment = of("redis://e", Origin::Environment);
        let (store, locks) = (of("redis://s", Origin::Settings), of("redis://l", Origin::Settings));
        let default = of("sqlite:/p/.bell/bell.db", Origin::Project);
        let (s, l) = (Some("redis://s"), Some("redis://l"));
        assert_eq!(resolved(Some(("redis://f", Origin::Flag)), s, l), [flag.clone(), flag]);
        assert_eq!(
            resolved(Some(("redis://e", Origin::Environment)), s, l),
            [environment.clone(), locks.clone()]
        );
        assert_eq!(
            resolved(Some(("redis://e", Origin::Environment)), s, None),
            [environment.clone(), environment]
        );
        assert_eq!(resolved(None, s, l), [store.clone(), locks.clone()]);
        assert_eq!(resolved(None, s, None), [store.clone(), store]);
        assert_eq!(resolved(None, None, l), [default.clone(), locks]);
        assert_eq!(resolved(None, None, None), [default.clone(), default]);
    }

    #[test]
    fn a_relative_path_is_below_the_project_and_everything_else_stays() {
        let cases = [
            ("sqlite:.bell/bell.db", "sqlite:/p/.bell/bell.db"),
            ("sqlite:./x.db", "sqlite:/p/x.db"),
            ("file:store", "file:/p/store"),
            ("file:../store", "file:/p/../store"),
            ("sqlite:/a/b", "sqlite:/a/b"),
            ("file:///a/b", "file:///a/b"),
            ("sqlite://host/b", "sqlite://host/b"),
            ("sqlite:", "sqlite:"),
            ("memory:", "memory:"),
            ("redis://h/0", "redis://h/0"),
            ("bell.db", "bell.db"),
        ];
        for (url, expected) in cases {
            assert_eq!(absolute(url, Path::new("/p")), expected, "{url}");
        }
    }
}
