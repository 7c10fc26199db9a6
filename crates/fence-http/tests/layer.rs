//! The layer around services that are not axum's, and what it refuses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_fence_http::layer::FenceService;
use bell_fence_http::{FenceLayer, Register, Target};
use bell_store::memory::Memory;
use bell_store::{Error, Info, Kind, Name, Outcome, Result, Snapshot, Store, Timestamp, Txn, Watch};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use tower_layer::Layer;
use tower_service::Service;

type Bytes = axum::body::Bytes;

/// A service of plain tower: it counts its calls and answers with the fence and the length of what came.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl<B> Service<Request<B>> for Counting
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let fence = request.extensions().get::<Fence>().map(|fence| fence.0);
            let length = request.into_body().collect().await.unwrap().to_bytes().len();
            assert!(length != 13, "an unlucky number");
            Ok(Response::new(Full::from(format!("{fence:?} {length}"))))
        })
    }
}

impl Counting {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A store that can be switched off.
struct Switched {
    memory: Memory,
    off: AtomicBool,
}

impl Switched {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: Memory::new(), off: AtomicBool::new(false) })
    }

    fn check(&self) -> Result<()> {
        let off = self.off.load(Ordering::SeqCst);
        if off { Err(Error::new(Kind::Unavailable, "reach the store")) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl Store for Switched {
    fn info(&self) -> &Info {
        self.memory.info()
    }
    async fn now(&self) -> Result<Timestamp> {
        self.memory.now().await
    }
    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.check()?;
        self.memory.read(names).await
    }
    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.memory.scan(prefix, from, limit).await
    }
    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.check()?;
        self.memory.commit(txn).await
    }
    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.memory.changed(watch).await
    }
}

fn layer() -> FenceLayer {
    FenceLayer::new(Register::new(Switched::new(), "fence/"))
}

fn request(method: &str, path: &str, fences: &[&str]) -> http::request::Builder {
    let request = Request::builder().method(method).uri(path);
    fences.iter().fold(request, |request, fence| request.header("X-Fence", *fence))
}

async fn call<B>(service: &mut FenceService<Counting>, request: Request<B>) -> (u16, String)
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let response = service.call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_request_that_is_let_in_carries_its_fence_to_the_service() {
    let mut service = layer().layer(Counting::default());
    let full = request("PUT", "/a", &["7"]).body(Full::<Bytes>::from("text")).unwrap();
    assert_eq!(call(&mut service, full).await, (200, "Some(7) 4".to_owned()));
    let empty = request("DELETE", "/a", &["8"]).body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(call(&mut service, empty).await, (200, "Some(8) 0".to_owned()));
}

#[tokio::test]
async fn what_changes_nothing_passes_without_a_fence() {
    let mut service = layer().layer(Counting::default());
    let read = request("GET", "/a", &[]).body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(call(&mut service, read).await, (200, "None 0".to_owned()));
}

#[tokio::test]
async fn what_is_refused_never_reaches_the_service() {
    let counting = Counting::default();
    let mut service = layer().body_bytes_max(8).layer(counting.clone());
    let long = format!("/{}", "a".repeat(600));
    let cases: [(&str, &[&str], &str, u16); 6] = [
        ("/a", &[], "", 428),
        ("/a", &["x"], "", 400),
        ("/a", &["1", "2"], "", 400),
        ("/a", &["-1"], "", 400),
        (&long, &["1"], "", 400),
        ("/a", &["1"], "nine bytes", 413),
    ];
    for (path, fences, body, status) in cases {
        let request = request("POST", path, fences).body(Full::<Bytes>::from(body)).unwrap();
        let (got, answer) = call(&mut service, request).await;
        assert_eq!(got, status, "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["outcome"], "invalid");
        assert!(answer["message"].is_string() && answer["hint"].is_string(), "{answer}");
    }
    assert_eq!(counting.calls(), 0);
}

#[tokio::test]
async fn without_its_register_it_lets_nothing_in() {
    let store = Switched::new();
    let counting = Counting::default();
    let mut service = FenceLayer::new(Register::new(store.clone(), "fence/")).layer(counting.clone());
    store.off.store(true, Ordering::SeqCst);
    let write = || request("PUT", "/a", &["7"]).body(Empty::<Bytes>::new()).unwrap();
    let (status, answer) = call(&mut service, write()).await;
    assert_eq!((status, counting.calls()), (503, 0));
    assert!(answer.contains(r#""outcome":"unavailable""#), "{answer}");
    store.off.store(false, Ordering::SeqCst);
    assert_eq!(call(&mut service, write()).await.0, 200);
}

#[tokio::test]
async fn a_rule_decides_what_is_guarded_and_how_it_is_named() {
    let by_tenant = |request: &http::request::Parts| match request.headers.get("x-tenant") {
        Some(tenant) => {
            Key::parse(&format!("tenant:{}", tenant.to_str().unwrap_or("?"))).map(Target::Guarded)
        }
        None => Ok(Target::Open),
    };
    let mut service = layer().rule(by_tenant).layer(Counting::default());
    let write = |path: &str, fence: &str| {
        let request = request("PUT", path, &[fence]).header("x-tenant", "acme");
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    assert_eq!(call(&mut service, write("/a", "7")).await.0, 200);
    assert_eq!(call(&mut service, write("/b", "6")).await.0, 412);
    let open = request("PUT", "/a", &[]).body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(call(&mut service, open).await.0, 200);
}

#[tokio::test]
async fn a_service_that_panics_gives_its_turn_back() {
    let service = layer().layer(Counting::default());
    let unlucky = request("PUT", "/a", &["7"]).body(Full::<Bytes>::from("thirteen byte")).unwrap();
    let mut clone = service.clone();
    let panicked = tokio::spawn(async move { call(&mut clone, unlucky).await }).await;
    assert!(panicked.unwrap_err().is_panic());
    let next = request("PUT", "/a", &["7"]).body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(call(&mut service.clone(), next).await.0, 200);
}
