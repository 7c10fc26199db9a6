//! Whose name a request may come under, from where, and with which key.
//!
//! Before anything else of a request is looked at: the host it was meant for, so that a foreign name that leads here (DNS
//! rebinding) is refused; and the page it comes from, so that no other page acts with what a browser knows. Then the key.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bell_control::Who;
use bell_control::who::{Via, Way};
use bell_coord::keys::{ApiKey, KeyName, Role};
use bell_coord::logins::Login;
use bell_coord::{Session, Token};
use bell_store::clock::boottime;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use tokio::time::timeout;

use super::guesses::TooMany;
use super::{Server, headers, login};
use crate::auth::{check_head, too_slow};
use crate::limits::ANSWER_WITHIN;
use crate::parking::Parking;
use crate::refusal::Refusal;
use crate::serve::Peer;
use bell_api::outcome::Outcome;

/// Where a browser says from how far away a request comes.
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names that this server is called by.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    names: BTreeSet<String>,
}

impl Hosts {
    /// What a server that listens here is called: its address, this machine's own names for itself if that leads here,
    /// and what else its operator says (`gateway.hosts`).
    pub fn of(listens_at: SocketAddr, named: &[String]) -> Self {
        let ip = listens_at.ip();
        let mut names: BTreeSet<String> = named.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.insert(bracketed(ip));
        if ip.is_loopback() || ip.is_unspecified() {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self { names }
    }

    /// Whether `host`, with or without a port, is one of them.
    fn has(&self, host: &str) -> bool {
        let host = without_port(host);
        self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Who a group of routes is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admitted {
    /// Who has an API key: any for looking, a full one for acting.
    Keys,
    /// Sessions of programs outside of any run, and who has a key.
    Sessions,
}

/// Who asks, proved.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Who has this key, or has logged in with it.
    Key {
        /// What it is called.
        name: KeyName,
        /// What it may do.
        role: Role,
        /// Whether the key itself was shown.
        via: Via,
        /// Where the request came in.
        way: Way,
    },
    /// A session of a program outside of any run. It takes locks, and nothing else.
    Session(Session),
}

impl Caller {
    /// Who that is, for the record of what they do.
    pub(crate) fn who(&self) -> Who {
        match self {
            Self::Key { name, via, way, .. } => Who { name: name.to_string(), via: *via, way: *way },
            Self::Session(session) => Who::key(format!("session {}", session.id())),
        }
    }

    /// Refuses whoever may only look.
    pub(crate) fn must_be_full(&self) -> Result<(), Refusal> {
        match self {
            Self::Key { role: Role::Full, .. } => Ok(()),
            Self::Key { name, role: Role::Read, .. } => Err(Refusal::new(
                Outcome::Unauthorized,
                format!("could not do this: the key {name} may only look"),
                "Use a full key; bell keys add NAME --role full makes one.",
            )
            .with(StatusCode::FORBIDDEN)),
            Self::Session(_) => Err(only_locks()),
        }
    }

    /// The key that makes a session.
    pub(crate) fn key(&self) -> Result<&KeyName, Refusal> {
        match self {
            Self::Key { name, .. } => Ok(name),
            Self::Session(_) => Err(only_locks()),
        }
    }

    /// The session that locks are taken in.
    pub(crate) fn session(&self) -> Result<&Session, Refusal> {
        match self {
            Self::Session(session) => Ok(session),
            Self::Key { .. } => Err(Refusal::new(
                Outcome::Unauthorized,
                "could not act for a session: the request shows a key, and a key holds no locks",
                "Make a session with POST /v1/sessions, and send its token instead of the key.",
            )
            .with(StatusCode::FORBIDDEN)),
        }
    }
}

fn only_locks() -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not do this: a session takes locks and does nothing else",
        "Use an API key.",
    )
    .with(StatusCode::FORBIDDEN)
}

/// Lets a request through that was meant for this server and does not come from another page.
pub(crate) async fn check(State(server): State<Server>, request: Request, next: Next) -> Response {
    let parking = request.extensions().get::<Parking>().cloned();
    match is_meant(&server, &request) {
        Ok(()) => finish(parking.as_ref(), timeout(ANSWER_WITHIN, next.run(request)).await.ok()),
        Err(refusal) => turn_away(refusal),
    }
}

/// Whether a request was meant for this server, and does not come from another page.
pub(super) fn is_meant<B>(server: &Server, request: &http::Request<B>) -> Result<(), Refusal> {
    let head = request.headers();
    check_head(head)?;
    check_target(request.uri())?;
    check_host(server.hosts(), head)?;
    check_origin(request.method(), head)
}

/// What is answered to a request that was not meant for this server.
pub(super) fn turn_away(refusal: Refusal) -> Response {
    let mut response = refusal.into_response();
    // What else comes on this connection may be another's, who did not know where it leads.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    headers::dress(response.headers_mut());
    response
}

/// What is answered to one that was: `None` if nothing was in time. It may be still to come.
pub(super) fn finish(parking: Option<&Parking>, answer: Option<Response>) -> Response {
    let mut response = answer.unwrap_or_else(|| too_slow().into_response());
    headers::dress(response.headers_mut());
    if let Some(parking) = parking {
        parking.change(|to_come| headers::dress(to_come.headers_mut()));
    }
    response
}

/// A target that names a host beside the one in `Host` could be taken for a request to either.
fn check_target(target: &Uri) -> Result<(), Refusal> {
    if target.scheme().is_none() && target.authority().is_none() {
        return Ok(());
    }
    Err(Refusal::invalid(
        "could not take the address: it names a host, and this server is no proxy",
        "Ask for the path alone, as in GET /v1/status.",
    ))
}

fn check_host(hosts: &Hosts, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut given = headers.get_all(HOST).iter();
    let (Some(host), None) = (given.next(), given.next()) else {
        return Err(Refusal::invalid(
            "could not tell for whom the request is: it has no Host, or more than one",
            "Send Host once.",
        ));
    };
    if host.to_str().is_ok_and(|host| hosts.has(host)) {
        return Ok(());
    }
    Err(Refusal::new(
        Outcome::Invalid,
        "could not answer: the request is for a host that this server is not",
        "Use its own address, or add the name to gateway.hosts in config.toml.",
    )
    .with(StatusCode::MISDIRECTED_REQUEST))
}

/// A browser says which page a request comes from. Looking is harmless: what is answered, another page can't read.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_same_site = text(&SEC_FETCH_SITE).is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text(&HOST).unwrap_or_default();
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
    if is_same_site && headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(is_own)) {
        return Ok(());
    }
    Err(other_page())
}

fn other_page() -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not act: the request comes from a page of another site",
        "Act from the dashboard, or with bell and a key.",
    )
    .with(StatusCode::FORBIDDEN)
}

/// Lets a request through whose key may do what it asks for. A page that somebody opens without one leads to the login.
pub(crate) async fn admit(server: Server, admitted: Admitted, mut request: Request, next: Next) -> Response {
    let peer = peer(&request);
    match caller(&server, admitted, peer, request.method(), request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED && is_for_a_page(&request) => {
            login::lead()
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Where a request comes from.
pub(crate) fn peer(request: &Request) -> Peer {
    request.extensions().get().copied().unwrap_or(Peer::Port(IpAddr::from([0; 4])))
}

fn is_for_a_page(request: &Request) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|accepts| accepts.to_str().ok()).unwrap_or_default();
    request.method() == Method::GET
        && accepts.contains("text/html")
        && !request.headers().contains_key(AUTHORIZATION)
}

/// Who asks.
pub(super) async fn caller(
    server: &Server,
    admitted: Admitted,
    peer: Peer,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Caller, Refusal> {
    let looks = matches!(*method, Method::GET | Method::HEAD);
    let caller = match bearer(headers)? {
        Some(shown) => {
            if let (Admitted::Sessions, Some(token)) = (admitted, Token::parse(shown)) {
                return server.outside().sessions.prove(&token).await.map(Caller::Session);
            }
            let (name, role) = prove(server, peer, shown).await?;
            Caller::Key { name, role, via: Via::Key, way: way(peer) }
        }
        None if headers.contains_key(AUTHORIZATION) => return Err(unknown()),
        None => {
            let login = login::shown(headers).ok_or_else(unknown)?;
            let (name, role) = logged_in(server, &login).await?;
            if !looks {
                must_name_its_page(headers)?;
            }
            Caller::Key { name, role, via: Via::Login, way: way(peer) }
        }
    };
    if !looks {
        caller.must_be_full()?;
    }
    Ok(caller)
}

/// The way that a request came in.
pub(crate) fn way(peer: Peer) -> Way {
    match peer {
        Peer::Socket => Way::Socket,
        Peer::Port(_) => Way::Http,
    }
}

/// Which key this is, and what it may do. Whoever was wrong too often is not looked at.
pub(crate) async fn prove(server: &Server, peer: Peer, shown: &str) -> Result<(KeyName, Role), Refusal> {
    let (guesses, key) = (server.guesses(), ApiKey::parse(shown));
    let turn = guesses.turn(peer, key.as_ref(), boottime());
    let _turn = match &turn {
        Some(turn) => Some(turn.lock().await),
        None => None,
    };
    guesses.check(peer, key.as_ref(), boottime()).map_err(too_often)?;
    if let Some(key) = key
        && let Some(role) = server.keys().role_of(&key).await?
    {
        guesses.right(peer, &key, boottime());
        return Ok((key.name().clone(), role));
    }
    guesses.wrong(peer, boottime());
    Err(unknown())
}

async fn logged_in(server: &Server, login: &Login) -> Result<(KeyName, Role), Refusal> {
    let name = server.control().coord.logged_in(login).await?.ok_or_else(unknown)?;
    let role = server.keys().role_named(&name).await?.ok_or_else(unknown)?;
    Ok((name, role))
}

/// A browser sends what it has of a login with every request, whoever made it; so an act must say which page it is from.
/// That it is one of ours was checked before.
fn must_name_its_page(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(ORIGIN) || headers.contains_key(&SEC_FETCH_SITE) {
        return Ok(());
    }
    Err(other_page())
}

fn too_often(TooMany(wait): TooMany) -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not look at the key: too many that were shown from this address were wrong",
        "Wait for as long as Retry-After says. On the machine itself, .bell/bell.sock is not counted.",
    )
    .with(StatusCode::TOO_MANY_REQUESTS)
    .after(wait)
}

/// What a request shows as its proof. One that shows two could be taken for two.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let first = given.next();
    if given.next().is_some() {
        return Err(Refusal::invalid(
            "could not tell who asks: Authorization is there more than once",
            "Send it once.",
        ));
    }
    let text = first.and_then(|value| value.to_str().ok()).and_then(|text| text.split_once(' '));
    Ok(text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, proof)| proof))
}

/// The same words whatever is wrong, so that nobody learns which names there are.
pub(crate) fn unknown() -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not tell who asks: the request shows no key that counts here",
        "Send Authorization: Bearer KEY; the first key is in .bell/api-key, and bell keys add makes others.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_its_own_names_are_answered_to() {
        let hosts = Hosts::of("127.0.0.1:8080".parse().unwrap(), &["Bell.example".to_owned()]);
        let ok = |host| check_host(&hosts, &headers(&[("host", host)])).is_ok();
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:9", "[::1]:8080", "bell.example:443"] {
            assert!(ok(host), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.", "", "0.0.0.0:8080", "127.0.0.1:x"]
        {
            assert!(!ok(host), "{host}");
        }
        assert!(check_host(&hosts, &headers(&[])).is_err());
        assert!(check_host(&hosts, &headers(&[("host", "localhost"), ("host", "localhost")])).is_err());
    }

    #[test]
    fn an_act_from_another_page_is_refused_and_a_look_is_not() {
        let from =
            |origin, site| headers(&[("host", "localhost:1"), ("origin", origin), ("sec-fetch-site", site)]);
        let own = from("http://localhost:1", "same-origin");
        let foreign = [
            from("http://evil.example", "cross-site"),
            from("null", "same-origin"),
            from("http://localhost:2", "same-site"),
            from("http://localhost:1", "cross-site"),
        ];
        assert!(check_origin(&Method::POST, &own).is_ok());
        assert!(check_origin(&Method::POST, &headers(&[("host", "localhost:1")])).is_ok(), "no browser");
        for headers in foreign {
            assert!(check_origin(&Method::POST, &headers).is_err(), "{headers:?}");
            assert!(check_origin(&Method::GET, &headers).is_ok());
        }
    }
}
