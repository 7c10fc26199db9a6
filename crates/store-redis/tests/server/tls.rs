//! Encrypted connections. The program openssl makes the certificate.

use std::process::{Command, Stdio};

use bell_e2e::{Redis, free_port};
use bell_store::Kind;
use bell_store_redis::RedisStore;

use crate::support::{commit, put, value};

/// Names the store to a second process, which trusts the certificate of the test.
const URL: &str = "BELL_TEST_REDIS_TLS_URL";

struct Encrypted {
    server: Redis,
    port: u16,
    folder: tempfile::TempDir,
}

impl Encrypted {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (certificate, key, port) = (file("cert.pem"), file("key.pem"), free_port());
        let made = command("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", &key, "-out", &certificate])
            .stderr(Stdio::null())
            .status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "this test needs openssl: apt-get install openssl"
        );
        let tls_port = port.to_string();
        let server = Redis::start_with(&[
            "--tls-port",
            &tls_port,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &certificate,
            "--tls-auth-clients",
            "no",
        ]);
        Self { server, port, folder }
    }
}

#[tokio::test]
async fn a_store_is_used_over_tls() {
    let encrypted = Encrypted::start();
    let status = command(&std::env::current_exe().unwrap().display().to_string())
        .args(["tls::second_process", "--exact"])
        .env(URL, format!("rediss://localhost:{}", encrypted.port))
        .env("SSL_CERT_FILE", encrypted.folder.path().join("cert.pem"))
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let plain = RedisStore::open(&encrypted.server.url("bell")).await.unwrap();
    assert_eq!(value(&plain, "x").await.as_deref(), Some("over TLS"));
}

/// Played by a second process; nothing in the process of the tests.
#[tokio::test]
async fn second_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = RedisStore::open(&url).await.unwrap();
    commit(&store, put("x", "over TLS")).await.unwrap();
}

#[tokio::test]
async fn what_does_not_fit_together_is_told_apart() {
    let encrypted = Encrypted::start();
    let (plain, tls) = (encrypted.server.port(), encrypted.port);
    for (url, kind, hint) in [
        (format!("rediss://localhost:{tls}"), Kind::Unsupported, "SSL_CERT_FILE"),
        (format!("rediss://localhost:{plain}"), Kind::Unavailable, "redis://"),
        (format!("redis://localhost:{tls}"), Kind::Unavailable, "rediss://"),
    ] {
        let error = RedisStore::open(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.advice().contains(hint), "{url}: {}", error.advice());
    }
}

#[expect(clippy::disallowed_methods, reason = "these tests need other programs")]
fn command(program: &str) -> Command {
    Command::new(program)
}
