//! L21: a backend that can't be reached grants nothing.

use bell_coord::{Ask, Denied};
use bell_store::Kind;
use bell_store::clock::boottime;

use super::faulty::{Fault, Faulty};
use super::ground::{Done, Ground, LOOK_EVERY, MOMENT, PATIENCE, Party, Stop, ensure, seconds};

pub(super) async fn an_unreachable_backend_grants_nothing(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let way = Faulty::over(ground.handle(0));
    let locks = Party::locks(way.clone())?;
    way.fail(Fault::Unreachable);
    for ask in [Ask::new(key.clone()), Ask::new(key.clone()).wait(PATIENCE)] {
        match locks.lock(ask).await {
            Err(Denied::Unavailable(error)) => {
                ensure!(error.kind() == Kind::Unavailable, "unavailable became {:?}", error.kind());
            }
            other => {
                let other = other.map(|held| held.fence());
                return Err(Stop::failed(format!("expected unavailable, got {other:?}")));
            }
        }
    }
    ground.party(1)?.sees_free(&key).await?;
    way.heal();
    locks.lock(Ask::new(key)).await?;
    Ok("unavailable with and without waiting; granted once it could be reached".to_owned())
}

pub(super) async fn a_silent_backend_leaves_the_holders_deadline_standing(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let way = Faulty::over(ground.handle(0));
    let held = Party::locks(way.clone())?.lock(Ask::new(key).ttl(seconds(4)?)).await?;
    way.fail(Fault::Silent);
    let deadline = held.lease().deadline;
    // Until then it may act: silence alone takes nothing away.
    while boottime() < deadline {
        let checked = held.check();
        ensure!(checked.is_ok() || boottime() + MOMENT >= deadline, "lost early: {checked:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    ensure!(held.check().is_err(), "still relied on after the deadline");
    Ok("held until its deadline, and not a moment longer".to_owned())
}
