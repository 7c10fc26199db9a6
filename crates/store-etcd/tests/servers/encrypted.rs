//! Connections over TLS, to a server whose certificate a test authority has signed.

use std::path::Path;
use std::process::Command;

use bell_e2e::{Server, free_port};
use bell_store::Kind;
use bell_store_etcd::Etcd;

use crate::support::{commit, eventually, put, value};

/// Makes an authority, and a certificate that it has signed for this machine and for clients.
const MAKE: &str = "
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout one.key -out one.csr
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\nextendedKeyUsage=serverAuth,clientAuth\\n' > one.ext
    openssl x509 -req -in one.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile one.ext -out one.pem
";

#[expect(clippy::disallowed_methods, reason = "the one place that makes certificates")]
fn make_certificates(folder: &Path) {
    let made = Command::new("sh").args(["-e", "-c", MAKE]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn start(port: u16, certificates: &Path) -> Server {
    let file = |name: &str| certificates.join(name).display().to_string();
    let (url, peer) = (format!("https://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
    let options = |folder: &Path| {
        [
            ("data-dir", folder.join("data").display().to_string()),
            ("listen-client-urls", url.clone()),
            ("advertise-client-urls", url.clone()),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer.clone()),
            ("initial-cluster", format!("default={peer}")),
            ("cert-file", file("one.pem")),
            ("key-file", file("one.key")),
            ("trusted-ca-file", file("ca.pem")),
        ]
        .map(|(name, value)| format!("--{name}={value}"))
        .into_iter()
        .chain(["--client-cert-auth".to_owned()])
        .collect()
    };
    Server::start(Path::new("etcd"), "etcd-server", options)
}

#[tokio::test]
async fn a_connection_is_encrypted_and_both_ends_are_known_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let port = free_port();
    let _server = start(port, folder.path());
    let (files, address) = (folder.path().display(), format!("etcd://127.0.0.1:{port}/bell"));
    let ours = format!("{address}?tls=on&ca={files}/ca.pem&cert={files}/one.pem&key={files}/one.key");
    let store = eventually(async || Etcd::open(&ours).await).await;
    commit(&store, put("a", "1")).await.unwrap();
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some(&b"1"[..]));

    let nameless = format!("{address}?tls=on&ca={files}/ca.pem");
    let untrusting = format!("{address}?tls=on&cert={files}/one.pem&key={files}/one.key");
    for url in [&address, &nameless, &untrusting] {
        let error = Etcd::open(url).await.expect_err("one end does not know the other");
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    }
    let error = Etcd::open(&format!("{address}?tls=on&ca=/nowhere.pem")).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere.pem"), "{error}");
}
