//! A request over several calls: answered, handed on, given up, and small while it waits.

use bell_coord::Keep;
use bell_core::session::Identity;
use bell_store::memory::Memory;

use super::*;

const KEY: &str = "deploy://x";

struct Scene {
    coord: Coord,
    waits: Waits,
}

impl Scene {
    fn new() -> Self {
        let waits = Waits::new(CancellationToken::new(), AtEnd::Leave, WAITS_MAX);
        Self { coord: Coord::new(Arc::new(Memory::new())), waits }
    }

    fn wanted(&self, session: &Session, wait: Duration) -> Wanted {
        let first = Key::parse(KEY).unwrap();
        let ask = Ask::new(first.clone()).wait(wait).request(RequestId::from("r1"));
        Wanted { coord: self.coord.clone(), session: session.clone(), ask, first }
    }

    /// The same for a short time.
    fn short(&self, session: &Session, wait: Duration) -> Wanted {
        let wanted = self.wanted(session, wait);
        Wanted { ask: wanted.ask.ttl(Ttl::MIN), ..wanted }
    }

    async fn stored_ttl_ms(&self) -> u64 {
        let key = Key::parse(KEY).unwrap();
        self.coord.show(&key).await.unwrap().holders[0].ttl.length().as_millis().try_into().unwrap()
    }

    fn count(&self) -> (usize, usize) {
        (self.waits.lock().len(), self.waits.0.tasks.len())
    }
}

fn session() -> Session {
    Session::new(Identity::default(), Keep::Detached).unwrap()
}

#[tokio::test]
async fn a_request_that_is_answered_at_once_takes_no_task_and_leaves_nothing() {
    let (scene, session) = (Scene::new(), session());
    let mut call = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
    assert!(call.answer_within(Duration::from_secs(60)).await.unwrap().is_ok());
    drop(call);
    assert_eq!(scene.count(), (0, 0));
    assert!(scene.waits.recent().take(session.id(), &Key::parse(KEY).unwrap()).is_some());
    let mut refused = scene.waits.attend(scene.wanted(&self::session(), Duration::ZERO)).unwrap();
    assert!(refused.answer_within(Duration::from_secs(60)).await.unwrap().is_err());
    drop(refused);
    assert_eq!(scene.count(), (0, 0));
}

#[tokio::test]
async fn a_request_whose_call_ends_goes_on_and_the_next_call_finds_its_answer() {
    let (scene, holder, waiter) = (Scene::new(), session(), session());
    let held = scene.coord.acquire(&holder, &scene.wanted(&holder, Duration::ZERO).ask).await.unwrap();
    let minute = Duration::from_secs(60);
    let mut call = scene.waits.attend(scene.wanted(&waiter, minute)).unwrap();
    assert!(call.answer_within(Duration::from_millis(5)).await.is_none());
    drop(call);
    assert_eq!(scene.count(), (1, 1));
    scene.coord.release(&holder, &held[0]).await.unwrap();
    let mut call = scene.waits.attend(scene.wanted(&waiter, minute)).unwrap();
    assert!(call.answer_within(minute).await.unwrap().is_ok());
    drop(call);
    scene.waits.0.tasks.close();
    scene.waits.0.tasks.wait().await;
    assert_eq!(scene.count(), (0, 0));
}

#[tokio::test]
async fn of_two_calls_the_second_gets_its_answer_too() {
    let (scene, session) = (Scene::new(), session());
    let mut first = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
    let mut second = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
    assert!(first.answer_within(Duration::from_secs(60)).await.unwrap().is_ok());
    drop(first);
    assert!(second.answer_within(Duration::from_secs(60)).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_request_that_comes_again_while_its_answer_goes_out_is_another() {
    let (scene, session) = (Scene::new(), session());
    let mut first = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
    let granted = first.answer().await.unwrap().unwrap();
    let mut second = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
    drop(first);
    assert_eq!(scene.count(), (1, 0), "the second is not forgotten with the first");
    assert_eq!(second.answer().await.unwrap().unwrap().fence, granted.fence, "the store knows its id");
    drop(second);
    assert_eq!(scene.count(), (0, 0));
}

#[tokio::test]
async fn a_request_that_waits_and_comes_again_with_a_longer_ttl_is_granted_that() {
    let (scene, holder, waiter) = (Scene::new(), session(), session());
    let held = scene.coord.acquire(&holder, &scene.wanted(&holder, Duration::ZERO).ask).await.unwrap();
    let minute = Duration::from_secs(60);
    let mut lost = scene.waits.attend(scene.short(&waiter, minute)).unwrap();
    assert!(lost.answer_within(Duration::from_millis(5)).await.is_none());
    drop(lost);
    let mut again = scene.waits.attend(scene.wanted(&waiter, minute)).unwrap();
    scene.coord.release(&holder, &held[0]).await.unwrap();
    let answer = again.answer().await.unwrap().unwrap();
    assert_eq!(answer.ttl_ms, Some(scene.stored_ttl_ms().await));
    assert_eq!(answer.ttl_ms.map(Duration::from_millis), Some(Ttl::DEFAULT.length()));
}

#[tokio::test]
async fn a_request_that_was_granted_unheard_and_comes_again_with_a_longer_ttl_gets_that() {
    let (scene, holder, waiter) = (Scene::new(), session(), session());
    let held = scene.coord.acquire(&holder, &scene.wanted(&holder, Duration::ZERO).ask).await.unwrap();
    let minute = Duration::from_secs(60);
    let mut lost = scene.waits.attend(scene.short(&waiter, minute)).unwrap();
    assert!(lost.answer_within(Duration::from_millis(5)).await.is_none());
    let request = Arc::clone(&lost.request);
    drop(lost);
    scene.coord.release(&holder, &held[0]).await.unwrap();
    request.standing.until(|standing| standing.answer.is_some()).await;
    let mut again = scene.waits.attend(scene.wanted(&waiter, minute)).unwrap();
    let answer = again.answer().await.unwrap().unwrap();
    assert_eq!(answer.ttl_ms, Some(scene.stored_ttl_ms().await));
    assert_eq!(answer.ttl_ms.map(Duration::from_millis), Some(Ttl::DEFAULT.length()));
}

#[tokio::test]
async fn so_many_have_their_moment_at_a_time_and_the_next_one_when_one_of_them_is_over() {
    let waits = Scene::new().waits;
    let mut moments: Vec<_> = (0..MOMENTS_MAX).map_while(|_| waits.moment()).collect();
    assert_eq!(moments.len(), MOMENTS_MAX);
    assert!(waits.moment().is_none());
    moments.pop();
    assert!(waits.moment().is_some());
}

/// Ten thousand of them are to fit into 100 MB with all that belongs to them.
#[tokio::test]
async fn what_carries_out_a_request_that_waits_is_small() {
    let (scene, session) = (Scene::new(), session());
    let call = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
    let wanted = scene.wanted(&session, Duration::from_secs(60));
    let bytes = size_of_val(&scene.waits.clone().see_through(Arc::clone(&call.request), wanted));
    assert!(bytes <= 1_500, "{bytes}");
    assert!(size_of::<Request>() <= 256, "{}", size_of::<Request>());
}

#[tokio::test]
async fn a_request_that_is_given_up_is_over_for_whoever_attends_it() {
    let (scene, holder, waiter) = (Scene::new(), session(), session());
    scene.coord.acquire(&holder, &scene.wanted(&holder, Duration::ZERO).ask).await.unwrap();
    let mut call = scene.waits.attend(scene.wanted(&waiter, Duration::from_secs(60))).unwrap();
    assert!(call.answer_within(Duration::from_millis(5)).await.is_none());
    call.hand_over();
    assert!(scene.waits.give_up(waiter.id(), &RequestId::from("r1")));
    let refusal = call.answer().await.unwrap().unwrap_err();
    assert_eq!(refusal.answer.outcome, bell_api::outcome::Outcome::TimedOut);
    drop(call);
    scene.waits.0.tasks.close();
    scene.waits.0.tasks.wait().await;
    assert_eq!(scene.count(), (0, 0));
}
