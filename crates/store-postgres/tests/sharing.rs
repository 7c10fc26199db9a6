//! Several handles, executors and openers on one store.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bell_store::info::Push;
use bell_store::{Expect, Outcome, Store, Txn, Watch};
use bell_store_postgres::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;

use support::{PATIENCE, Place, committed, put, put_at, read};

#[tokio::test]
async fn a_change_by_another_handle_is_pushed() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    assert_eq!(here.info().push, Push::Push);
    let seen = committed(&there, put("a", "1")).await.revision;
    let watch = Watch::Names(vec![("a".into(), seen)]);
    let waiting = here.changed(&watch);
    let change = async {
        // Long enough for the other to be waiting; if it is not, the test is only less strict.
        tokio::time::sleep(Duration::from_millis(100)).await;
        committed(&there, put("a", "2")).await
    };
    let (woken, _) = tokio::time::timeout(PATIENCE, async { tokio::join!(waiting, change) }).await.unwrap();
    woken.unwrap();
}

#[tokio::test]
async fn a_change_under_a_long_name_is_pushed() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let name = "n".repeat(1_000);
    let watch = Watch::Names(vec![(name.as_str().into(), 0)]);
    let waiting = here.changed(&watch);
    let change = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        committed(&there, put(&name, "1")).await
    };
    let (woken, _) = tokio::time::timeout(PATIENCE, async { tokio::join!(waiting, change) }).await.unwrap();
    woken.unwrap();
}

#[tokio::test]
async fn many_changes_at_once_wake_everybody_who_waits_for_one() {
    let place = Place::new();
    let (here, there) = (Arc::new(place.open().await), place.open().await);
    let names: Vec<String> = (0..60).map(|number| format!("name/{number}")).collect();
    let waiting: Vec<_> = names
        .iter()
        .map(|name| {
            let (here, watch) = (Arc::clone(&here), Watch::Names(vec![(name.as_str().into(), 0)]));
            tokio::spawn(async move { here.changed(&watch).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let writes = names.iter().flat_map(|name| put(name, "1").writes).collect();
    committed(&there, Txn { writes, ..Txn::default() }).await;
    for waiter in waiting {
        tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn transactions_that_wait_together_share_a_commit_and_each_has_its_own_outcome() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let before = store.batches();
    let rivals: Vec<_> = (0..200)
        .map(|number| {
            let store = Arc::clone(&store);
            // Every tenth is about a record of its own, all others about the same one.
            let name = if number % 10 == 0 { format!("own/{number}") } else { "shared".to_owned() };
            tokio::spawn(async move { store.commit(put_at(&name, 0, "1")).await.unwrap() })
        })
        .collect();
    let (mut done, mut conflicts) = (Vec::new(), 0);
    for rival in rivals {
        match rival.await.unwrap() {
            Outcome::Committed(committed) => done.push(committed.revision),
            Outcome::Conflict(found) => {
                assert_eq!(found.records["shared"].value, b"1");
                conflicts += 1;
            }
        }
    }
    done.sort_unstable();
    done.dedup();
    assert_eq!((done.len(), conflicts), (21, 179));
    assert!(store.batches() - before < 100, "{} commits for 200 transactions", store.batches() - before);
}

#[tokio::test]
async fn the_next_batch_is_with_the_server_before_the_last_is_answered() {
    let place = Place::new();
    let (port, answers) = held_up(place.server.port()).await;
    let url = place.url().replace(&format!(":{}/", place.server.port()), &format!(":{port}/"));
    let store = Postgres::open(&url).await.unwrap();
    // The first batch goes the long way, and prepares; one more prepares the short one.
    committed(&store, put("a", "1")).await;
    committed(&store, put("b", "1")).await;
    let hold = answers.write().await;
    let arrived = async |name: &str| {
        let is_there = format!("SELECT count(*) = 1 FROM {{schema}}.records WHERE name = '{name}'");
        while place.sql(&is_there) != "t" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let next = async {
        arrived("c").await;
        let last = async {
            arrived("d").await;
            drop(hold);
        };
        tokio::join!(committed(&store, put("d", "1")), last).0
    };
    let both = async { tokio::join!(committed(&store, put("c", "1")), next) };
    let (first, second) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert!(first.revision < second.revision);
}

/// A port that leads to that one. Answers get through only while nobody writes to the lock.
async fn held_up(server: u16) -> (u16, Arc<RwLock<()>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let (port, answers) = (listener.local_addr().expect("a port").port(), Arc::new(RwLock::new(())));
    let may_pass = Arc::clone(&answers);
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.expect("a client");
            let (mut from_client, mut to_client) = client.into_split();
            let server = TcpStream::connect(("127.0.0.1", server)).await.expect("the server");
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let may_pass = Arc::clone(&may_pass);
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                    let _passing = may_pass.read().await;
                    if to_client.write_all(&bytes[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (port, answers)
}

#[tokio::test]
async fn later_transactions_of_a_batch_see_what_earlier_ones_did() {
    let place = Place::new();
    let store = place.open().await;
    // The first is under way while the others gather; they are judged in the order they came in.
    let check = Txn { expect: vec![("a".into(), Expect::Absent)], ..Txn::default() };
    let answers = tokio::join!(
        store.commit(put("busy", "1")),
        store.commit(put_at("a", 0, "first")),
        store.commit(put_at("a", 0, "second")),
        store.commit(check),
    );
    assert!(matches!(answers.1.unwrap(), Outcome::Committed(_)));
    for loser in [answers.2.unwrap(), answers.3.unwrap()] {
        let Outcome::Conflict(found) = loser else { panic!("a record was there") };
        assert_eq!(found.records["a"].value, b"first");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_its_task_has_left_half_way_holds_up_nobody() {
    let place = Place::new();
    let store = place.open().await;
    committed(&store, put("a", "1")).await;
    let mut left = store.commit(put("b", "1"));
    assert!(polled_once(&mut left).await.is_none(), "it is on the way");
    for number in 0..3 {
        let commit = committed(&store, put(&format!("c/{number}"), "1"));
        tokio::time::timeout(PATIENCE, commit).await.unwrap();
    }
    drop(left);
    tokio::time::timeout(PATIENCE, committed(&store, put("d", "1"))).await.unwrap();
}

/// What a future has come to when it was polled once.
async fn polled_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    tokio::select! {
        biased;
        done = future => Some(done),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_that_commit_at_the_same_time_lose_nothing() {
    const TIMES: usize = 150;
    let place = Place::new();
    let counters = (0..3).map(async |_| {
        let store = place.open().await;
        let mut seen = 0;
        let mut value = 0;
        let mut revisions = Vec::new();
        while revisions.len() < TIMES {
            match store.commit(put_at("sum", seen, &(value + 1).to_string())).await.unwrap() {
                Outcome::Committed(committed) => {
                    seen = committed.revision;
                    value += 1;
                    revisions.push(seen);
                }
                Outcome::Conflict(found) => {
                    let record = &found.records["sum"];
                    seen = record.version;
                    value = String::from_utf8_lossy(&record.value).parse().unwrap();
                }
            }
            // Something of its own in between, which goes by the short way if nobody else commits.
            committed(&store, put("own", "1")).await;
        }
        revisions
    });
    let [one, two, three]: [_; 3] =
        counters.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("three"));
    let (one, two, three) = tokio::join!(one, two, three);
    let mut revisions = [one, two, three].concat();
    assert!(revisions.chunks(TIMES).all(|own| own.is_sorted()), "revisions rise");
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 3 * TIMES, "every commit has a revision of its own");
    let sum = &read(&place.open().await, "sum").await.records["sum"];
    assert_eq!((&*sum.value, sum.version), (&b"450"[..], revisions[3 * TIMES - 1]));
}

#[tokio::test]
async fn a_conflict_of_one_who_is_alone_brings_the_records_and_writes_nothing() {
    let place = Place::new();
    let store = place.open().await;
    let first = committed(&store, put("a", "1")).await.revision;
    for expected in [0, first - 1] {
        committed(&store, put("b", "1")).await;
        let before = read(&store, "a").await.revision;
        let Outcome::Conflict(found) = store.commit(put_at("a", expected, "2")).await.unwrap() else {
            panic!("a record was there")
        };
        assert_eq!((&*found.records["a"].value, found.revision), (&b"1"[..], before));
        assert_eq!(read(&store, "a").await.revision, before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_from_another_executor_sees_what_was_committed_here() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let here = committed(&*store, put("a", "here")).await.revision;
    let elsewhere = Arc::clone(&store);
    let there = std::thread::spawn(move || {
        let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        executor.block_on(async {
            assert_eq!(read(&*elsewhere, "a").await.revision, here);
            committed(&*elsewhere, put_at("a", here, "there")).await.revision
        })
    });
    let there = tokio::task::spawn_blocking(|| there.join().unwrap()).await.unwrap();
    assert!(there > here);
    assert_eq!(read(&*store, "a").await.records["a"].value, b"there");
}

#[tokio::test]
async fn a_store_of_the_last_format_is_brought_up_to_date() {
    let place = Place::new();
    let before = committed(&place.open().await, put("a", "1")).await.revision;
    place.sql(
        "DROP PROCEDURE {schema}.commit_together; DROP FUNCTION {schema}.settle;
         CREATE PROCEDURE {schema}.commit_each() LANGUAGE sql AS '';
         UPDATE {schema}.meta SET bell_format = 1",
    );
    let store = place.open().await;
    assert_eq!(read(&store, "a").await.records["a"].version, before);
    assert!(committed(&store, put("a", "2")).await.revision > before);
    let is_gone = "SELECT count(*) FROM pg_proc WHERE proname = 'commit_each' AND pronamespace = '{schema}'::regnamespace";
    assert_eq!(place.sql(is_gone), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_open_a_new_store_at_once_find_the_same_one() {
    let place = Place::new();
    let openers: Vec<_> = (0..6)
        .map(|number| {
            let url = place.url();
            tokio::spawn(async move {
                let store = Postgres::open(&url).await.unwrap();
                committed(&store, put(&format!("name/{number}"), "1")).await.revision
            })
        })
        .collect();
    let mut revisions = Vec::new();
    for opener in openers {
        revisions.push(opener.await.unwrap());
    }
    revisions.sort_unstable();
    assert!(revisions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{revisions:?}");
}

#[tokio::test]
async fn a_store_that_was_dropped_and_made_anew_goes_on_above_what_it_gave_out() {
    let place = Place::new();
    let before = committed(&place.open().await, put("a", "1")).await.revision;
    place.sql("DROP SCHEMA {schema} CASCADE");
    assert!(committed(&place.open().await, put("a", "1")).await.revision > before);
}

#[test]
fn a_store_outlives_the_executor_that_opened_it() {
    let executor = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let place = Place::new();
    let store = executor().block_on(place.open());
    let revision = executor().block_on(committed(&store, put("a", "1"))).revision;
    assert_eq!(executor().block_on(read(&store, "a")).revision, revision);
}

#[tokio::test]
async fn a_commit_is_synchronous_where_the_database_is_not() {
    let place = Place::new();
    place.sql("CREATE SCHEMA {schema}; CREATE TABLE public.{schema}_seen (setting text)");
    let role = format!("hasty_{}", place.schema);
    place.sql(&format!(
        "CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'hunter2'; ALTER ROLE {role} SET synchronous_commit = off"
    ));
    let store =
        Postgres::open(&place.server.url_as(&role, "hunter2", "postgres", &place.schema)).await.unwrap();
    place.sql(
        "CREATE FUNCTION {schema}.watch() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO public.{schema}_seen
             VALUES (substring(current_query() FROM 'CALL|WITH') || ' ' || current_setting('synchronous_commit'));
             RETURN NULL;
         END $$;
         CREATE TRIGGER watch AFTER INSERT ON {schema}.records EXECUTE FUNCTION {schema}.watch()",
    );
    committed(&store, put("a", "1")).await;
    committed(&store, put("b", "1")).await;
    let both_ways = place.sql("SELECT string_agg(setting, ', ') FROM public.{schema}_seen");
    assert_eq!(both_ways, "CALL on, WITH on");
}
