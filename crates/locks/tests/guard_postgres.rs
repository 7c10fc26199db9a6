//! Guarded writes to a real PostgreSQL server.

use std::time::Duration;

use bell_e2e::Postgres as Server;
use bell_locks::Fence;
use bell_locks::guard::Stale;
use bell_locks::guard::postgres::{self, GuardError};
use tokio_postgres::{Client, NoTls};

struct Database {
    url: String,
    _server: Server,
}

impl Database {
    fn start() -> Self {
        let server = Server::start();
        server.sql("CREATE TABLE reports (id integer, text text); INSERT INTO reports VALUES (42, 'old')");
        let (password, port) = (Server::PASSWORD, server.port());
        Self { url: format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres"), _server: server }
    }

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    async fn set_up(&self) -> Client {
        let client = self.connect().await;
        postgres::set_up(&client).await.expect("a table of fences");
        client
    }
}

async fn replace(client: &mut Client, fence: u64, text: &str) -> Result<u64, GuardError> {
    postgres::write(client, "reports/42", Fence(fence), async |transaction| {
        transaction.execute("UPDATE reports SET text = $1 WHERE id = 42", &[&text]).await
    })
    .await
}

async fn text(client: &Client) -> String {
    client.query_one("SELECT text FROM reports", &[]).await.expect("a report").get(0)
}

#[tokio::test]
async fn a_write_with_a_lower_fence_is_refused_and_writes_nothing() {
    let database = Database::start();
    let mut client = database.set_up().await;
    for (fence, text) in [(7, "first"), (7, "again"), (1 << 61, "successor")] {
        assert_eq!(replace(&mut client, fence, text).await.unwrap(), 1);
    }
    let refused = replace(&mut client, 8, "stale").await.unwrap_err();
    let seen = Fence(1 << 61);
    assert!(
        matches!(refused, GuardError::Stale(Stale { given: Fence(8), seen: s }) if s == seen),
        "{refused:?}"
    );
    assert_eq!(text(&client).await, "successor");
}

#[tokio::test]
async fn a_failed_write_does_not_raise_the_fence_and_setting_up_twice_does_no_harm() {
    let database = Database::start();
    let mut client = database.set_up().await;
    let broken = postgres::write(&mut client, "reports/42", Fence(9), async |transaction| {
        transaction.execute("INSERT INTO nowhere VALUES (1)", &[]).await
    });
    assert!(matches!(broken.await, Err(GuardError::Postgres(_))));
    postgres::set_up(&client).await.unwrap();
    replace(&mut client, 8, "still accepted").await.unwrap();
}

#[tokio::test]
async fn a_stale_writer_that_comes_while_its_successor_writes_is_refused() {
    let database = Database::start();
    let (mut successor, mut stale) = (database.set_up().await, database.connect().await);
    let transaction = successor.transaction().await.unwrap();
    postgres::check(&transaction, "reports/42", Fence(8)).await.unwrap();
    let late = tokio::spawn(async move { replace(&mut stale, 7, "stale").await });
    // Long enough for it to be waiting; if it is not, the test is only less strict.
    tokio::time::sleep(Duration::from_millis(100)).await;
    transaction.execute("UPDATE reports SET text = 'successor'", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(matches!(late.await.unwrap(), Err(GuardError::Stale(_))));
    assert_eq!(text(&successor).await, "successor");
}

#[tokio::test]
async fn the_single_statement_changes_no_row_for_a_stale_writer() {
    let database = Database::start();
    let client = database.set_up().await;
    for (fence, text, changed) in [(7_i64, "one", 1), (8, "two", 1), (7, "stale", 0)] {
        let rows = client.execute(postgres::WRITE, &[&"reports/42", &fence, &text, &42]).await.unwrap();
        assert_eq!(rows, changed, "{text}");
    }
    assert_eq!(text(&client).await, "two");
}
