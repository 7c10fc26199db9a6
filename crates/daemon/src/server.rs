//! The port and the socket of the daemon: what they are, who may use them, and until when.

use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bell_control::Control;
use bell_control::place::Place;
use bell_coord::keys::{ApiKey, KeyName, Role};
use bell_coord::{Coord, Denied, Session};
use bell_gateway::serve::{Listening, listen, serve_daemon};
use bell_gateway::server::guard::Hosts;
use bell_gateway::server::routes::routes;
use bell_gateway::server::{Server, Vitals};
use bell_project::folder::Folder;
use bell_project::settings::Gateway;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::flow::UpError;
use crate::site::Site;
use crate::wishes::Wishes;

/// How long answers that are under way may take once the daemon stops. Waits and streams are ended at once, so what is
/// left is a commit.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// The key that is made for whoever owns the project, and what it is called where that name is taken.
const FIRST_KEY: &str = "local";
const FIRST_KEYS_MAX: usize = 1_000;

/// What a daemon serves, while it runs.
pub(crate) struct Gate {
    address: SocketAddr,
    server: Server,
    place: Place,
    closing: CancellationToken,
    served: JoinSet<()>,
}

impl Gate {
    /// Opens the port and the socket. A port that was handed over is open already, and stays so when this daemon ends.
    pub(crate) async fn open(
        site: &Site,
        wishes: Arc<Wishes>,
        presence: watch::Receiver<Session>,
        handed: Option<&Arc<net::TcpListener>>,
    ) -> Result<Self, UpError> {
        let settings = site.loaded().settings.gateway.clone();
        let has_key = first_key(&site.coord, &site.place).await?;
        let handed = handed.map(handed_over).transpose()?;
        let ip = handed.as_ref().map_or(settings.bind, |(_, address)| address.ip());
        check_exposure(ip, &settings, has_key)?;
        let port = match handed {
            Some((port, _)) => port,
            None => bind(&settings).await?,
        };
        let address = port.local_addr().map_err(UpError::disk("look at the port"))?;
        let control = control(site).await?;
        site.metrics.watch(control.clone()).await?;
        let server = Server::new(control, Hosts::of(address, &settings.hosts), wishes);
        server.show(Vitals { metrics: site.metrics.clone(), presence: Some(presence) });
        let socket = socket(&site.place).map_err(UpError::disk("open the socket .bell/bell.sock"))?;
        let closing = CancellationToken::new();
        let mut served = JoinSet::new();
        for listening in [Listening::Tcp(port), Listening::Unix(socket)] {
            let (routes, closing) = (routes(server.clone()), closing.clone());
            served.spawn(async move { serve_daemon(listening, routes, &closing).await });
        }
        let gate = Self { address, server, place: site.place.clone(), closing, served };
        gate.announce().map_err(UpError::disk("write .bell/gateway.json"))?;
        Ok(gate)
    }

    /// Where it can be reached.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no further connection, and lets answers that are under way come out.
    pub(crate) async fn close(mut self) {
        self.server.stopping().cancel();
        self.closing.cancel();
        let all_over = async { while self.served.join_next().await.is_some() {} };
        if tokio::time::timeout(FINISH_WITHIN, all_over).await.is_err() {
            tracing::warn!("some answers were not finished when the daemon stopped");
        }
        // Nobody is to look for a daemon here any more; who does finds nobody.
        let _ = std::fs::remove_file(self.place.gateway());
        let _ = std::fs::remove_file(self.place.socket());
    }

    fn announce(&self) -> io::Result<()> {
        let socket = self.place.socket();
        let text =
            serde_json::json!({ "url": self.url(), "socket": socket, "version": env!("CARGO_PKG_VERSION") });
        let text = text.to_string();
        self.place.write_private(&self.place.gateway(), text.as_bytes())
    }
}

/// What the routes ask and do.
async fn control(site: &Site) -> Result<Control, UpError> {
    let folder = Folder::open(site.folder.path()).map_err(UpError::disk("open the project"))?;
    let control =
        Control::live(site.coord.clone(), site.locks().clone(), Arc::new(folder), site.project.clone());
    Ok(control.on(bell_locks::open::redacted(&site.store_url)).isolating(bell_runner::isolation::probe))
}

/// A port that whoever started this daemon holds open, and its address.
fn handed_over(port: &Arc<net::TcpListener>) -> Result<(TcpListener, SocketAddr), UpError> {
    let adopt = || {
        let port = port.try_clone()?;
        port.set_nonblocking(true)?;
        let address = port.local_addr()?;
        Ok((TcpListener::from_std(port)?, address))
    };
    adopt().map_err(UpError::disk("use the port that was handed over (LISTEN_FDS)"))
}

/// The port. A project that did not choose one gets another where the usual one is taken.
async fn bind(settings: &Gateway) -> Result<TcpListener, UpError> {
    let address = SocketAddr::new(settings.bind, settings.port);
    match TcpListener::bind(address).await {
        Ok(port) => Ok(port),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && settings.port == Gateway::PORT => {
            let port = TcpListener::bind(SocketAddr::new(settings.bind, 0)).await;
            let port = port.map_err(|error| UpError::Port { address, error })?;
            let taken = port.local_addr().map(|address| address.port()).unwrap_or_default();
            tracing::warn!(port = taken, "port 8080 is taken: set gateway.port to choose one");
            Ok(port)
        }
        Err(error) => Err(UpError::Port { address, error }),
    }
}

/// Other machines are let in only by somebody who said so, and only with a key.
fn check_exposure(ip: IpAddr, settings: &Gateway, has_key: bool) -> Result<(), UpError> {
    if ip.is_loopback() {
        return Ok(());
    }
    if !settings.expose {
        return Err(UpError::Exposed(ip, "gateway.expose is not true"));
    }
    if !has_key {
        return Err(UpError::Exposed(ip, "every API key was revoked"));
    }
    Ok(())
}

fn socket(place: &Place) -> io::Result<tokio::net::UnixListener> {
    // Whatever is there was left by a daemon that is gone: this one has locked the project.
    match std::fs::remove_file(place.socket()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    listen(&place.socket(), None)
}

/// Makes the key of whoever owns the project, unless the store knows the one that is there. One that was revoked is not
/// made anew: somebody wanted that. Whether any key counts.
async fn first_key(coord: &Coord, place: &Place) -> Result<bool, UpError> {
    let kept = std::fs::read_to_string(place.api_key()).ok().and_then(|text| ApiKey::parse(&text));
    let known = match &kept {
        Some(key) => coord.known_key(key.name()).await?,
        None => None,
    };
    if known.is_none() {
        let key = new_key(coord).await?;
        let text = format!("{}\n", key.expose());
        place
            .write_private(&place.api_key(), text.as_bytes())
            .map_err(UpError::disk("write .bell/api-key"))?;
        return Ok(true);
    }
    Ok(coord.keys().await?.iter().any(|key| key.revoked_ms.is_none()))
}

async fn new_key(coord: &Coord) -> Result<ApiKey, UpError> {
    for number in 1..=FIRST_KEYS_MAX {
        let name = if number == 1 { FIRST_KEY.to_owned() } else { format!("{FIRST_KEY}-{number}") };
        let name: KeyName = name.parse().map_err(|error| Denied::Invalid(format!("{error}")))?;
        if let Some(key) = coord.add_key(&name, Role::Full).await? {
            return Ok(key);
        }
    }
    Err(Denied::Invalid("there are too many keys called local: revoke some".to_owned()).into())
}
