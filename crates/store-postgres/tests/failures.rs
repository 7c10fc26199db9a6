//! Servers that are killed, frozen or cut off.

mod support;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bell_e2e::Postgres as Server;
use bell_store::{Kind, Store, Watch};
use bell_store_postgres::Postgres;
use rustix::process::Signal;

use support::{PATIENCE, committed, committed_in_the_end, put, read};

#[tokio::test]
async fn a_killed_server_is_unavailable_and_found_again_when_it_is_back() {
    let mut server = Server::start_with(&[]);
    let store = Postgres::open(&server.url("bell")).await.unwrap();
    let before = committed(&store, put("a", "1")).await.revision;
    server.kill();
    let error = store.read(&["a".into()]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
    let error = store.commit(put("a", "lost")).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unavailable | Kind::Unknown), "{error:?}");
    server.restart();
    let after = committed_in_the_end(&store, "b", "2").await.revision;
    assert!(after > before);
    assert_eq!(read(&store, "a").await.records["a"].value, b"1");
}

#[tokio::test]
async fn every_answered_commit_survives_a_kill() {
    let mut server = Server::start_with(&[]);
    let store = Arc::new(Postgres::open(&server.url("bell")).await.unwrap());
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut answered = Vec::new();
                for number in 0.. {
                    let name = format!("{writer}/{number}");
                    match store.commit(put(&name, "1")).await {
                        Ok(_) => answered.push(name),
                        Err(error) => {
                            assert!(matches!(error.kind(), Kind::Unknown | Kind::Unavailable), "{error:?}");
                            break;
                        }
                    }
                }
                answered
            })
        })
        .collect();
    // A busy machine takes its time to connect; each commit of the server answers one writer at the least.
    while store.batches() < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    let mut answered = Vec::new();
    for writer in writers {
        answered.extend(writer.await.unwrap());
    }
    server.restart();
    committed_in_the_end(&*store, "back", "1").await;
    assert!(answered.len() > 8, "only {} commits before the kill", answered.len());
    for name in answered {
        assert_eq!(read(&*store, &name).await.records.len(), 1, "{name} is lost");
    }
}

#[tokio::test]
async fn those_who_wait_hear_of_changes_after_the_server_was_away() {
    let mut server = Server::start_with(&[]);
    let url = server.url("bell");
    let (here, there) = (Postgres::open(&url).await.unwrap(), Postgres::open(&url).await.unwrap());
    server.kill();
    server.restart();
    let seen = committed_in_the_end(&there, "a", "1").await.revision;
    let change = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        committed_in_the_end(&there, "a", "2").await
    };
    let wait = async {
        // A read that meets the lost connection makes it anew.
        while here.changed(&Watch::Names(vec![("a".into(), seen)])).await.is_err() {}
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(wait, change) }).await.unwrap();
}

#[tokio::test]
async fn a_listening_connection_that_was_ended_is_made_again() {
    let server = Server::start();
    let url = server.url("bell");
    let (here, there) = (Postgres::open(&url).await.unwrap(), Postgres::open(&url).await.unwrap());
    let ended = server
        .sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
    assert_eq!(ended, "2");
    let watch = Watch::Names(vec![("a".into(), 0)]);
    let change = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        committed(&there, put("a", "1")).await
    };
    let (woken, _) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(here.changed(&watch), change) }).await.unwrap();
    woken.unwrap();
}

#[tokio::test]
async fn a_frozen_server_is_late_and_a_commit_to_it_unknown() {
    let server = Server::start();
    let store = Postgres::open(&server.url("bell")).await.unwrap();
    committed(&store, put("a", "1")).await;
    server.signal_all(Signal::STOP);
    let names = ["a".into()];
    let both = async { tokio::join!(store.commit(put("a", "2")), store.read(&names)) };
    let answers = tokio::time::timeout(PATIENCE, both).await;
    server.signal_all(Signal::CONT);
    let (commit, read) = answers.unwrap();
    assert_eq!(commit.unwrap_err().kind(), Kind::Unknown);
    assert_eq!(read.unwrap_err().kind(), Kind::Unavailable);
    committed_in_the_end(&store, "a", "3").await;
}

#[tokio::test]
async fn a_caller_that_stopped_reading_keeps_nobody_waiting() {
    let server = Server::start();
    let store = Postgres::open(&server.url("bell")).await.unwrap();
    // Nobody reads what this client is answered with, and it is far more than a socket holds.
    let large = "x".repeat(1 << 20);
    let mut names = Vec::new();
    for number in 0..24 {
        let name = format!("large/{number}");
        committed(&store, put(&name, &large)).await;
        names.push(format!("'{name}'::bytea"));
    }
    let arguments = format!(
        "'x', 0, 9000000000000000, NULL, 1, NULL, NULL, ARRAY[NULL]::bigint[], ARRAY[0::bigint],
         array_fill(1, ARRAY[24]), ARRAY[{}], array_fill(0::bigint, ARRAY[24])",
        names.join(", ")
    );
    let nothing = ", '{}'".repeat(10);
    let answered = format!(", NULL, NULL, NULL, NULL, NULL{}", ", '{}'".repeat(5));
    let _stuck =
        ask_without_reading(&server, &format!("CALL bell.commit_together({arguments}{nothing}{answered})"));
    let is_stuck = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'";
    while server.sql(is_stuck) != "1" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let in_time = tokio::time::timeout(PATIENCE, store.commit(put("a", "1"))).await.unwrap();
    in_time.unwrap();
}

/// A connection that was given a statement, in the words of PostgreSQL's protocol, and is not read from.
fn ask_without_reading(server: &Server, statement: &str) -> UnixStream {
    let mut connection = UnixStream::connect(server.socket()).expect("a connection");
    let message = |kind: &[u8], body: &[u8]| {
        let bytes = u32::try_from(body.len() + 4).expect("a short message").to_be_bytes();
        [kind, &bytes, body].concat()
    };
    let version = 196_608_u32.to_be_bytes();
    let startup = [version.as_slice(), b"user\0postgres\0database\0postgres\0\0"].concat();
    connection.write_all(&message(b"", &startup)).expect("a server that reads");
    connection.write_all(&message(b"Q", format!("{statement}\0").as_bytes())).expect("a server that reads");
    connection
}
