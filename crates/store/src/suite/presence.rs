//! A session that is called gone is gone. Where death can't be noticed, nobody is ever called gone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ground::{Done, Ground, PATIENCE, Stop, ensure};

pub(super) async fn a_session_that_attends_is_not_gone(ground: Ground) -> Done {
    let session = ground.session();
    let _attendance = ground.store.presence().attend(&session)?;
    for store in [&ground.store, &ground.other] {
        ensure!(!store.presence().is_gone(&session), "it is called gone");
    }
    Ok(())
}

pub(super) async fn a_session_that_never_attended_is_not_gone(ground: Ground) -> Done {
    ensure!(!ground.store.presence().is_gone(&ground.session()), "it is called gone");
    Ok(())
}

pub(super) async fn a_session_whose_attendance_ended_is_gone_for_all(ground: Ground) -> Done {
    noticing(&ground)?;
    let session = ground.session();
    drop(ground.store.presence().attend(&session)?);
    for store in [&ground.store, &ground.other] {
        let watch = Instant::now();
        while !store.presence().is_gone(&session) {
            ensure!(watch.elapsed() < PATIENCE, "it is not called gone after {PATIENCE:?}");
            sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(())
}

pub(super) async fn one_session_that_goes_leaves_the_others_present(ground: Ground) -> Done {
    let (staying, going) = (ground.session(), ground.session());
    let _attendance = ground.store.presence().attend(&staying)?;
    drop(ground.store.presence().attend(&going)?);
    ensure!(!ground.other.presence().is_gone(&staying), "the session that stayed is called gone");
    Ok(())
}

pub(super) async fn a_forgotten_session_is_as_if_it_had_never_been(ground: Ground) -> Done {
    let (session, other) = (ground.session(), ground.session());
    drop(ground.store.presence().attend(&session)?);
    let _attendance = ground.store.presence().attend(&other)?;
    ground.store.presence().forget(&session);
    // Forgotten twice, or never known: no harm.
    ground.other.presence().forget(&session);
    for store in [&ground.store, &ground.other] {
        ensure!(!store.presence().is_gone(&session), "the forgotten session is called gone");
        ensure!(!store.presence().is_gone(&other), "another session is called gone");
    }
    Ok(())
}

pub(super) async fn where_death_is_not_noticed_nobody_is_gone(ground: Ground) -> Done {
    if ground.store.info().notices_death {
        return Err(Stop::Skipped("death is noticed"));
    }
    let session = ground.session();
    drop(ground.store.presence().attend(&session)?);
    ensure!(!ground.other.presence().is_gone(&session), "it is called gone");
    Ok(())
}

fn noticing(ground: &Ground) -> Done {
    if ground.store.info().notices_death {
        return Ok(());
    }
    Err(Stop::Skipped("death is not noticed"))
}
