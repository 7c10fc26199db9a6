//! `bell fence serve`: the reference sink, for trying it out.

use std::io;
use std::net::SocketAddr;

use bell_api::exit;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::answer::Refusal;
use crate::cli::ServeArgs;
use crate::fleet::Reach;
use crate::interrupt::Interrupts;
use crate::open::{Access, Scene};
use crate::project::Located;
use crate::say::Say;

/// That it listens, and where.
#[derive(Serialize)]
struct Listening {
    listening: String,
}

pub(super) async fn serve(say: &Say, reach: &Reach, args: &ServeArgs) -> Result<u8, Refusal> {
    let address = address(args)?;
    let Located { project, stores } = reach.start.stores(reach.store.as_ref())?;
    let scene = Scene::new(say, stores.work, project);
    let store = scene.open_any(Access::Write).await?.coord.store().clone();
    let mut interrupts = Interrupts::listen()?;
    let listener = TcpListener::bind(address).await.map_err(|error| not_bound(address, &error))?;
    let url = format!("http://{}", listener.local_addr().unwrap_or(address));
    let listening = Listening { listening: url.clone() };
    let _ = scene.say.answer(&listening, || format!("listening on {url}"));
    let stop = async move {
        interrupts.next().await;
    };
    let served = bell_fence_http::serve(listener, store, stop).await;
    served.map_err(|error| {
        Refusal::unavailable(format!("could not go on listening on {url}: {error}"), "Start it again.")
    })?;
    Ok(exit::OK)
}

fn address(args: &ServeArgs) -> Result<SocketAddr, Refusal> {
    let address = args.listen.parse::<SocketAddr>().map_err(|error| {
        Refusal::invalid(
            format!("could not read the address {:?}: {error}", args.listen),
            "Write an IP address and a port, as in 127.0.0.1:7777 or [::1]:7777.",
        )
    })?;
    if address.ip().is_loopback() || args.public {
        return Ok(address);
    }
    Err(Refusal::invalid(
        format!(
            "could not listen on {address}: other machines would reach it, and nobody is asked who they are"
        ),
        "Listen on 127.0.0.1; or give --public if everybody who reaches that address may write.",
    ))
}

fn not_bound(address: SocketAddr, error: &io::Error) -> Refusal {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "Choose another port with --listen, or 0 for any free one.",
        io::ErrorKind::PermissionDenied => "Choose a port above 1023 with --listen.",
        _ => "Listen on an address that this machine has, such as 127.0.0.1.",
    };
    Refusal::unavailable(format!("could not listen on {address}: {error}"), hint)
}
