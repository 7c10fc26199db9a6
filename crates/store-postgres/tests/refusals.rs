//! What can't be opened or committed says why, what to do, and never the password.

mod support;

use bell_e2e::Postgres as Server;
use bell_store::info::Durability;
use bell_store::{Kind, Store};
use bell_store_postgres::Postgres;

use support::{Place, committed, put, read, refused};

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let place = Place::new();
    let error = refused(&place.server.url_as("postgres", "hunter3", "postgres", "bell")).await;
    assert_eq!(error.kind(), Kind::Unauthorized, "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter3"));
}

#[tokio::test]
async fn a_missing_password_is_refused() {
    let place = Place::new();
    let error = refused(&format!("postgres://postgres@127.0.0.1:{}/postgres", place.server.port())).await;
    assert_eq!(error.kind(), Kind::Unauthorized, "{error:?}");
}

#[tokio::test]
async fn an_unknown_database_is_refused() {
    let place = Place::new();
    let error = refused(&place.server.url_as("postgres", Server::PASSWORD, "nowhere", "bell")).await;
    assert_eq!(error.kind(), Kind::Invalid, "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let port = bell_e2e::free_port();
    let error = refused(&format!("postgres://ada:hunter2@127.0.0.1:{port}/app")).await;
    assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[tokio::test]
async fn something_that_is_no_server_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = std::thread::spawn(move || drop(listener.accept()));
    let error = refused(&format!("postgres://ada:hunter2@127.0.0.1:{port}/app")).await;
    assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
    silent.join().unwrap();
}

#[tokio::test]
async fn a_schema_of_something_else_is_refused_and_left_alone() {
    let place = Place::new();
    place.sql("CREATE SCHEMA {schema}; CREATE TABLE {schema}.meta (revision integer)");
    let error = refused(&place.url()).await;
    assert_eq!(error.kind(), Kind::Invalid, "{error:?}");
    assert_eq!(place.sql("SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace"), "1");
}

#[tokio::test]
async fn an_empty_schema_that_an_administrator_made_is_used() {
    let place = Place::new();
    place.sql("CREATE SCHEMA {schema}");
    committed(&place.open().await, put("a", "1")).await;
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused() {
    let place = Place::new();
    drop(place.open().await);
    place.sql("UPDATE {schema}.meta SET bell_format = 3");
    assert_eq!(refused(&place.url()).await.kind(), Kind::TooNew);
}

#[tokio::test]
async fn a_store_that_can_not_be_created_leaves_nothing_behind() {
    let place = Place::new();
    let role = format!("plain_{}", place.schema);
    place.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'hunter2'"));
    let error = refused(&place.server.url_as(&role, "hunter2", "postgres", &place.schema)).await;
    assert_eq!(error.kind(), Kind::Unauthorized, "{error:?}");
    assert_eq!(place.sql("SELECT to_regnamespace('{schema}') IS NULL"), "t");
}

#[tokio::test]
async fn a_role_with_what_the_documentation_grants_can_use_the_store() {
    let place = Place::new();
    committed(&place.open().await, put("a", "owner")).await;
    let role = format!("plain_{}", place.schema);
    let page = include_str!("../../../docs/stores/postgres.md");
    let grants: Vec<&str> = page.lines().filter(|line| line.starts_with("GRANT ")).collect();
    assert_eq!(grants.len(), 3, "the page lists the grants");
    place.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'hunter2'"));
    for grant in grants {
        place.sql(
            &grant.replace("bell_agent", &role).replace("bell.", "{schema}.").replace(" bell ", " {schema} "),
        );
    }
    let store =
        Postgres::open(&place.server.url_as(&role, "hunter2", "postgres", &place.schema)).await.unwrap();
    committed(&store, put("a", "agent")).await;
    assert_eq!(read(&store, "a").await.records["a"].value, b"agent");
    assert_eq!(store.scan("", "", 10).await.unwrap().records.len(), 1);
    store.raise_epoch().await.unwrap();
}

#[tokio::test]
async fn a_role_with_other_isolation_is_refused() {
    let place = Place::new();
    let role = format!("strict_{}", place.schema);
    place.sql(&format!(
        "CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'hunter2';
         ALTER ROLE {role} SET default_transaction_isolation = 'serializable'"
    ));
    let error = refused(&place.server.url_as(&role, "hunter2", "postgres", &place.schema)).await;
    assert_eq!(error.kind(), Kind::Unsupported, "{error:?}");
}

#[tokio::test]
async fn a_role_without_a_connection_left_is_told_to_try_later() {
    let place = Place::new();
    let role = format!("narrow_{}", place.schema);
    place.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'hunter2' CONNECTION LIMIT 0"));
    let error = refused(&place.server.url_as(&role, "hunter2", "postgres", &place.schema)).await;
    assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
    assert!(error.advice().contains("connections"), "{}", error.advice());
}

#[tokio::test]
async fn a_database_that_can_not_be_written_refuses_commits_and_can_be_read() {
    let place = Place::new();
    committed(&place.open().await, put("a", "1")).await;
    let role = format!("reader_{}", place.schema);
    place.sql(&format!(
        "CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'hunter2';
         ALTER ROLE {role} SET default_transaction_read_only = on"
    ));
    let store =
        Postgres::open(&place.server.url_as(&role, "hunter2", "postgres", &place.schema)).await.unwrap();
    assert_eq!(store.commit(put("a", "2")).await.unwrap_err().kind(), Kind::ReadOnly);
    assert_eq!(read(&store, "a").await.records["a"].value, b"1");
}

/// A trigger stands for a server in need: it fails as the server would.
fn fail_large_values(place: &Place, code: &str) {
    place.sql(&format!(
        "CREATE FUNCTION {{schema}}.fail() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'in need' USING ERRCODE = '{code}'; END $$;
         CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON {{schema}}.records
         FOR EACH ROW WHEN (length(NEW.value) > 9) EXECUTE FUNCTION {{schema}}.fail()"
    ));
}

#[tokio::test]
async fn a_server_in_need_says_of_what() {
    for (code, kind) in [("53100", Kind::Full), ("53200", Kind::Unavailable), ("25006", Kind::ReadOnly)] {
        let place = Place::new();
        let store = place.open().await;
        fail_large_values(&place, code);
        let error = store.commit(put("a", "ten bytes!")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(read(&store, "a").await.records.is_empty());
    }
}

#[tokio::test]
async fn what_fits_is_committed_when_what_waits_with_it_does_not() {
    let place = Place::new();
    let store = place.open().await;
    fail_large_values(&place, "53100");
    let (large, small) = tokio::join!(store.commit(put("a", "ten bytes!")), store.commit(put("b", "1")));
    assert_eq!(large.unwrap_err().kind(), Kind::Full);
    small.unwrap();
    assert_eq!(read(&store, "b").await.records.len(), 1);
}

#[tokio::test]
async fn a_schema_that_was_dropped_is_noticed() {
    let place = Place::new();
    let store = place.open().await;
    place.sql("DROP SCHEMA {schema} CASCADE");
    assert_eq!(store.commit(put("a", "1")).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(store.read(&[]).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn a_server_that_does_not_sync_says_so_and_nothing_shows_the_password() {
    let place = Place::new();
    let store = place.open().await;
    let info = store.info();
    assert_eq!(info.durability, Durability::Process);
    assert!(info.warnings[0].words.contains("fsync"), "{info:?}");
    assert!(!format!("{store:?} {info:?}").contains(Server::PASSWORD));
}
