//! Encryption where the address asks for it, and never less than it asks for.

mod support;

use bell_e2e::Postgres as Server;
use bell_store::Kind;

use support::refused;

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn a_demand_for_encryption_is_refused_rather_than_ignored() {
    let server = Server::shared();
    let error = refused(&format!("{}&sslmode=require", server.url("bell"))).await;
    assert_eq!(error.kind(), Kind::Unsupported);
}

#[cfg(feature = "tls")]
mod encrypted {
    use super::*;

    use bell_store_postgres::Postgres;
    use support::{committed, put};

    #[tokio::test]
    async fn a_server_with_a_trusted_certificate_is_spoken_to_in_secret() {
        let (server, authority) = Server::start_encrypted();
        let url = format!("{}&sslmode=require&sslrootcert={}", server.url("bell"), authority.display());
        committed(&Postgres::open(&url).await.unwrap(), put("a", "1")).await;
        let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                      WHERE NOT ssl AND application_name = 'bell'";
        assert_eq!(server.sql(plain), "0");
    }

    #[tokio::test]
    async fn a_server_whose_certificate_is_not_trusted_is_refused() {
        let (server, _) = Server::start_encrypted();
        let (_other, stranger) = Server::start_encrypted();
        let url = format!("{}&sslmode=require&sslrootcert={}", server.url("bell"), stranger.display());
        let error = refused(&url).await;
        assert_eq!(error.kind(), Kind::Unsupported, "{error:?}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_encrypt_is_refused() {
        let server = Server::shared();
        let (_other, authority) = Server::start_encrypted();
        let url = format!("{}&sslmode=require&sslrootcert={}", server.url("bell"), authority.display());
        let error = refused(&url).await;
        assert_eq!(error.kind(), Kind::Unsupported, "{error:?}");
    }

    #[tokio::test]
    async fn a_file_that_holds_no_certificate_is_refused() {
        let url = "postgres://ada@127.0.0.1/app?sslmode=require&sslrootcert=/dev/null";
        assert_eq!(refused(url).await.kind(), Kind::Invalid);
    }
}
