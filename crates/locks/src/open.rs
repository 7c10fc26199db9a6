//! Backends by URL. The only place that names concrete stores.
//!
//! | URL | where the locks are |
//! | --- | --- |
//! | `memory:` | in this process |
//! | `sqlite:PATH` | in one file, shared by the processes of one machine |
//! | `file:PATH` | in a folder, shared by whoever can lock files there |
//! | `redis://:PASSWORD@HOST:PORT/DATABASE?prefix=bell` | on a Redis server |
//! | `redis+sentinel://HOST,HOST/SERVICE`, `redis+cluster://HOST,HOST` | on the node that these name |
//! | `postgres://USER:PASSWORD@HOST/DATABASE?schema=bell` | in a schema of a PostgreSQL database |
//! | `etcd://USER:PASSWORD@HOST,HOST/PREFIX` | under a prefix of an etcd cluster |
//!
//! Others' backends join with [`register`].

mod postgres;
mod redis;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bell_coord::Denied;
use bell_store::{Error, Kind, Revision, Store};

use crate::backend::LockBackend;
use crate::locks::StoreLocks;

/// Opens a backend from the text after `scheme:`.
pub type Opener = Arc<dyn Fn(&str) -> Result<Arc<dyn LockBackend>, Denied> + Send + Sync>;

static REGISTERED: Mutex<BTreeMap<String, Opener>> = Mutex::new(BTreeMap::new());

/// Makes `scheme:…` open with `opener`. The last one registered for a scheme counts; the built-in schemes
/// can't be replaced.
pub fn register(
    scheme: &str,
    opener: impl Fn(&str) -> Result<Arc<dyn LockBackend>, Denied> + Send + Sync + 'static,
) {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.insert(scheme.to_owned(), Arc::new(opener));
}

/// Opens the backend at `url`.
///
/// # Errors
/// [`Denied::Invalid`] if no backend of that scheme is known, [`Denied::Unavailable`] if it can't be opened.
pub async fn open(url: &str) -> Result<Arc<dyn LockBackend>, Denied> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Denied::Invalid(format!("{url:?} is not a store URL: {}", known_schemes())));
    };
    if BUILT_IN.contains(&scheme) || redis::is_scheme(scheme) || postgres::is_scheme(scheme) {
        return Ok(Arc::new(StoreLocks::new(open_store(url).await?)));
    }
    let opener = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).get(scheme).cloned();
    match opener {
        Some(opener) => opener(rest),
        None => Err(Denied::Invalid(format!("no store has the scheme {scheme:?}: {}", known_schemes()))),
    }
}

/// Whether this build has the store of a built-in scheme: some are features of this library.
pub fn is_built_in(scheme: &str) -> bool {
    match scheme {
        "memory" | "sqlite" | "file" => true,
        "etcd" => cfg!(feature = "etcd"),
        _ if redis::is_scheme(scheme) => cfg!(feature = "redis"),
        _ if postgres::is_scheme(scheme) => cfg!(feature = "postgres"),
        _ => false,
    }
}

const BUILT_IN: &[&str] = &["memory", "sqlite", "file", "etcd"];

/// Opens the store at `url`, one of those built in.
///
/// # Errors
/// As for [`open`].
pub async fn open_store(url: &str) -> Result<Arc<dyn Store>, Denied> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "memory" => Ok(Arc::new(bell_store::memory::Memory::new())),
        "sqlite" => {
            let path = path(url, rest)?;
            Ok(Arc::new(off_the_executor(move || bell_store_sqlite::Sqlite::open(&path)).await?))
        }
        "file" => {
            let path = path(url, rest)?;
            Ok(Arc::new(off_the_executor(move || bell_store_fs::Folder::open(&path)).await?))
        }
        "etcd" => open_etcd(url).await,
        _ if redis::is_scheme(scheme) => redis::open(url).await,
        _ if postgres::is_scheme(scheme) => postgres::open(url).await,
        _ => Err(Denied::Invalid(format!("no store has the scheme {scheme:?}: {}", known_schemes()))),
    }
}

#[cfg(feature = "etcd")]
async fn open_etcd(url: &str) -> Result<Arc<dyn Store>, Denied> {
    Ok(Arc::new(bell_store_etcd::Etcd::open(url).await?))
}

#[cfg(not(feature = "etcd"))]
async fn open_etcd(_url: &str) -> Result<Arc<dyn Store>, Denied> {
    Err(Error::new(Kind::Unsupported, "use etcd: this program was built without it")
        .hint(
            "Build bell with cargo build -p bell-cli --features etcd, which needs protoc; \
             a program of your own with the feature etcd of bell-locks.",
        )
        .into())
}

/// Whether there is a store at `url`, so that it would be opened and not created. One on a server counts as there: that shows
/// when it is opened. It looks at the disk.
///
/// # Errors
/// [`Denied::Invalid`] for a URL without a path, [`Denied::Unavailable`] if it can't be looked at.
pub fn exists(url: &str) -> Result<bool, Denied> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    let file = match scheme {
        "sqlite" => path(url, rest)?,
        "file" => path(url, rest)?.join(bell_store_fs::MARKER),
        _ => return Ok(true),
    };
    match std::fs::metadata(&file) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::new(Kind::of_io(&error), format!("look for the store {}", file.display()))
            .hint("Run as the user who owns it, or give this user access.")
            .because(error)
            .into()),
    }
}

/// Begins a new epoch of the store at `url`: an operator has seen to it that nobody relies on what the store may
/// have lost ([`Kind::Rewound`]), or has brought back an older copy of it. Answers its first revision, which is above all that were given out.
///
/// # Errors
/// [`Denied::Invalid`] if stores of this kind have none ([`check_epoch`]); otherwise as for [`open`].
pub async fn raise_epoch(url: &str) -> Result<Revision, Denied> {
    check_epoch(url)?;
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "sqlite" => {
            let path = path(url, rest)?;
            Ok(off_the_executor(move || bell_store_sqlite::Sqlite::raise_epoch(&path)).await?)
        }
        "file" => {
            let path = path(url, rest)?;
            Ok(off_the_executor(move || bell_store_fs::Folder::raise_epoch(&path)).await?)
        }
        _ if redis::is_scheme(scheme) => redis::raise_epoch(url).await,
        _ => postgres::raise_epoch(url).await,
    }
}

/// Whether the store at `url` is of a kind whose epoch can be raised.
///
/// # Errors
/// [`Denied::Invalid`] with what to do instead.
pub fn check_epoch(url: &str) -> Result<(), Denied> {
    let scheme = url.split(':').next().unwrap_or_default();
    let has_one =
        matches!(scheme, "sqlite" | "file") || redis::is_scheme(scheme) || postgres::is_scheme(scheme);
    match scheme {
        _ if has_one => Ok(()),
        "etcd" => Err(Denied::Invalid(
            "could not raise the epoch: the revisions of an etcd store are etcd's own; bring a snapshot back with \
             etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted"
                .to_owned(),
        )),
        _ => Err(Denied::Invalid(format!("a store of the scheme {scheme:?} has no epoch to raise"))),
    }
}

/// A URL as it may be shown: without what stands before the `@`.
pub fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, place) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, hosts)) => format!("{scheme}://…@{hosts}{place}"),
        None => url.to_owned(),
    }
}

/// Opening reads disks and may wait for another process; an executor must not.
async fn off_the_executor<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let work = move || {
        // Nobody listens any more: the opened store is closed again.
        let _ = answer.send(open());
    };
    std::thread::Builder::new().name("bell-open".to_owned()).spawn(work).map_err(no_thread)?;
    answered.await.map_err(|_| Error::new(Kind::Unavailable, "open the store: its thread ended"))?
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, "start a thread").because(error)
}

/// `sqlite:/a/b`, `sqlite:a/b` and `sqlite:///a/b` name paths; a host name can't be reached by path.
fn path(url: &str, rest: &str) -> Result<PathBuf, Denied> {
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => {
            return Err(Denied::Invalid(format!("{url:?} names a host: write sqlite:/path or file:///path")));
        }
        None => rest,
    };
    if path.is_empty() {
        return Err(Denied::Invalid(format!("{url:?} has no path: write sqlite:/path or file:///path")));
    }
    Ok(Path::new(path).to_path_buf())
}

fn known_schemes() -> String {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let others = registered.keys().map(|scheme| format!(", {scheme}:…")).collect::<String>();
    format!(
        "use memory:, sqlite:PATH, file:PATH, postgres://HOST/DATABASE, redis://HOST, etcd://HOST/PREFIX{others}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_credentials() {
        assert_eq!(redacted("redis://u:p@ss@host:1/2?prefix=a"), "redis://…@host:1/2?prefix=a");
        for harmless in ["sqlite:/a@b", "redis://host/a@b", "file:///a", "memory:"] {
            assert_eq!(redacted(harmless), harmless);
        }
    }
}
