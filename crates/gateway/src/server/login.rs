//! Pages: logging in with a key, logging out, and a first page that says what is here.
//!
//! A browser that has shown a key keeps a cookie instead of it, which no script can read and no other site's page can
//! make it send. The dashboard stands on the same login.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use bell_control::Who;
use bell_control::who::Via;
use bell_coord::audit::act;
use bell_coord::logins::{LOGIN_FOR, Login};
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, RETRY_AFTER, SET_COOKIE,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::guard::{Caller, peer, prove, way};
use super::{Server, headers};
use crate::body;
use crate::refusal::Refusal;

const COOKIE_NAME: &str = "bell_session";
/// Where a login is asked for.
const LOGIN: &str = "/login";
const STYLE: &str = include_str!("login.css");

/// What needs no key: showing one.
pub(crate) fn open() -> Router<Server> {
    Router::new()
        .route(LOGIN, get(ask).post(log_in))
        .route("/logout", post(log_out))
        .route("/login.css", get(style))
}

/// The first page.
pub(crate) fn for_keys() -> Router<Server> {
    Router::new().route("/", get(home))
}

/// Leads to the login.
pub(super) fn lead() -> Response {
    (StatusCode::FOUND, [(LOCATION, LOGIN)]).into_response()
}

/// The login that a request shows. One that shows two shows none.
pub(super) fn shown(headers: &HeaderMap) -> Option<Login> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut shown = pairs.filter(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value);
    match (shown.next(), shown.next()) {
        (Some(value), None) => Login::parse(value),
        _ => None,
    }
}

async fn ask() -> Response {
    form(StatusCode::OK, "")
}

async fn log_in(State(server): State<Server>, request: Request) -> Response {
    match try_log_in(&server, request).await {
        Ok(cookie) => {
            (StatusCode::SEE_OTHER, [(LOCATION, HeaderValue::from_static("/")), (SET_COOKIE, cookie)])
                .into_response()
        }
        Err(refusal) => refused(&refusal),
    }
}

async fn try_log_in(server: &Server, request: Request) -> Result<HeaderValue, Refusal> {
    let peer = peer(&request);
    let channel = Channel::of(request.headers());
    let sent = body::form(request).await?;
    let field = form_urlencoded::parse(&sent).find(|(name, _)| name == "key");
    let key = field.map(|(_, key)| key.trim().to_owned()).unwrap_or_default();
    let (name, _) = prove(server, peer, &key).await?;
    let who = Who { name: name.to_string(), via: Via::Login, way: way(peer) };
    let acting = server.control().coord.acting(act(&who.recorded(None), "login", &name));
    let login = acting.log_in(&name).await?.ok_or_else(too_many)?;
    cookie(&login.expose(), LOGIN_FOR.as_secs(), channel)
}

async fn log_out(State(server): State<Server>, request: Request) -> Response {
    if let Some(login) = shown(request.headers()) {
        // What can't be ended now ends by itself; the browser forgets it in any case.
        if let Err(error) = server.control().coord.log_out(&login).await {
            tracing::warn!(%error, "could not end a login");
        }
    }
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, LOGIN)]).into_response();
    if let Ok(cookie) = cookie("", 0, Channel::Plain) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// How a browser sees this server: a proxy before it may speak HTTPS.
#[derive(Clone, Copy)]
enum Channel {
    Plain,
    Encrypted,
}

impl Channel {
    fn of(headers: &HeaderMap) -> Self {
        let origin = headers.get(ORIGIN).map_or(&b""[..], HeaderValue::as_bytes);
        if origin.starts_with(b"https://") { Self::Encrypted } else { Self::Plain }
    }
}

fn cookie(value: &str, seconds: u64, channel: Channel) -> Result<HeaderValue, Refusal> {
    let secure = match channel {
        Channel::Plain => "",
        Channel::Encrypted => "; Secure",
    };
    let text = format!("{COOKIE_NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(text).map_err(|_| Refusal::invalid("could not make the cookie", "Try again."))
}

async fn home(State(server): State<Server>, Extension(caller): Extension<Caller>) -> Response {
    let who = greeting(&caller.who());
    let agents = match server.control().loaded().agents.len() {
        1 => "one agent".to_owned(),
        count => format!("{count} agents"),
    };
    page(
        StatusCode::OK,
        &format!(
            "<h1>Bellwether</h1>\n<p>{who} This project has {agents}.</p>\n<ul>\n\
             <li><a href=\"/v1/status\">/v1/status</a>: what runs and what waits</li>\n\
             <li><a href=\"/v1/agents\">/v1/agents</a>: the agents</li>\n\
             <li><a href=\"/v1/locks\">/v1/locks</a>: who holds what</li>\n\
             <li><a href=\"/metrics\">/metrics</a>: numbers</li>\n\
             <li><a href=\"/openapi.json\">/openapi.json</a>: everything that can be asked</li>\n</ul>\n\
             <form method=\"post\" action=\"/logout\"><button>Log out</button></form>"
        ),
    )
}

/// Who looks at the page, as a sentence.
fn greeting(who: &Who) -> String {
    let name = escaped(&who.name);
    match who.via {
        Via::Login => format!("You are logged in with the key {name}."),
        Via::Key => format!("You ask with the key {name}."),
        Via::Local => format!("You are {name}."),
    }
}

async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

fn refused(refusal: &Refusal) -> Response {
    let message = match refusal.status {
        StatusCode::UNAUTHORIZED => "That key does not count here.",
        StatusCode::TOO_MANY_REQUESTS => "Too many keys were wrong. Wait a little, then try again.",
        _ => refusal.answer.message.as_deref().unwrap_or_default(),
    };
    let mut response = form(refusal.status, &format!("<p role=\"alert\">{}</p>\n", escaped(message)));
    if let Some(wait) = refusal.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    }
    response
}

fn form(status: StatusCode, message: &str) -> Response {
    page(
        status,
        &format!(
            "<h1>Bellwether</h1>\n{message}<form method=\"post\" action=\"{LOGIN}\">\n\
             <label for=\"key\">API key</label>\n\
             <input id=\"key\" name=\"key\" type=\"password\" autocomplete=\"current-password\" required autofocus>\n\
             <button>Log in</button>\n</form>\n\
             <p>The first key is in <code>.bell/api-key</code>; <code>bell keys add</code> makes others.</p>"
        ),
    )
}

fn page(status: StatusCode, content: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Bellwether</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"stylesheet\" href=\"/login.css\">\n\
         </head>\n<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    );
    let mut response = Response::new(Body::from(html));
    *response.status_mut() = status;
    let head = response.headers_mut();
    head.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    head.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(headers::PAGE));
    response
}

/// Text that stays text in a page.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
        out
    })
}

fn too_many() -> Refusal {
    Refusal::limit("could not log in: too many are logged in", "Wait until some have logged out.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookies: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_static(cookie));
        }
        headers
    }

    #[test]
    fn a_login_is_found_among_other_cookies_and_two_are_none() {
        const LOGIN: &str = "a=b; bell_session=00000000000000000000000000000000.0000000000000000000000000000000000000000000000000000000000000000; c=d";
        assert!(shown(&with(&[LOGIN])).is_some());
        assert!(shown(&with(&["a=b", LOGIN])).is_some());
        assert!(shown(&with(&[LOGIN, LOGIN])).is_none());
        assert!(shown(&with(&["bell_session=nonsense"])).is_none());
        assert!(shown(&with(&[])).is_none());
    }

    #[test]
    fn a_cookie_is_for_no_script_and_no_other_site() {
        let plain = cookie("x", 9, Channel::Plain).unwrap();
        assert_eq!(plain, "bell_session=x; Path=/; Max-Age=9; HttpOnly; SameSite=Strict");
        assert!(cookie("x", 9, Channel::Encrypted).unwrap().to_str().unwrap().ends_with("; Secure"));
    }

    #[test]
    fn whoever_looks_is_told_by_which_key_they_are_known() {
        let who = Who { via: Via::Login, ..Who::key("lap<top") };
        assert_eq!(greeting(&who), "You are logged in with the key lap&lt;top.");
        assert_eq!(greeting(&Who::key("laptop")), "You ask with the key laptop.");
    }

    #[test]
    fn markup_stays_text() {
        assert_eq!(escaped("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }
}
