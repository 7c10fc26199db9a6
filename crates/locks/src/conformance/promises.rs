//! L22: a backend says what it promises, and keeps it.

use bell_coord::{Ask, Denied, Lease};
use bell_store::info::{Clock, Durability, Scope};

use super::ground::{Done, Ground, Stop, ensure};

pub(super) async fn a_grant_survives_reopening(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let holder = ground.detached(0)?;
    let lease = holder.take(&key).await?;
    let session = holder.session.clone();
    drop(holder);
    let ground = ground.reopened().await?;
    let other = ground.party(1)?;
    other.sees_held(&key, lease.fence).await?;
    let busy = other.is_refused(&key).await?;
    ensure!(busy.holders[0].session == *session.id(), "held by {} now", busy.holders[0].session);
    let named = Lease::new(key.clone(), lease.mode, lease.fence, lease.ttl, lease.deadline);
    ground.handle(0).renew(&session, &named).await?;
    ground.handle(0).release(&session, &named).await?;
    other.sees_free(&key).await?;
    Ok(format!("fence {} was held, renewed and released after reopening", lease.fence))
}

pub(super) async fn the_claims_agree_with_each_other(ground: Ground) -> Done {
    let claims = ground.capabilities();
    for number in 0..3 {
        let told = ground.handle(number).capabilities();
        ensure!(told == claims, "two handles claim different things: {told:?} and {claims:?}");
    }
    ensure!(!claims.backend.is_empty(), "the backend has no name");
    let survives = claims.durability > Durability::Volatile;
    ensure!(!claims.fences_survive_restart || survives, "fences outlive a restart that nothing survives");
    ensure!(ground.url().is_none() || claims.scope >= Scope::Process, "a URL that nobody else can open");
    let one_clock = claims.clock == Clock::Boottime && claims.scope == Scope::Distributed;
    ensure!(!one_clock, "machines can't share one machine's clock");
    Ok(format!(
        "{}: {:?}, survives: {:?}, clock: {:?}",
        claims.backend, claims.scope, claims.durability, claims.clock
    ))
}

pub(super) async fn what_is_not_claimed_is_refused_as_invalid(ground: Ground) -> Done {
    let claims = ground.capabilities();
    let party = ground.party(0)?;
    let (key, backend) = (ground.key("a")?, &party.backend);
    let mut refused = Vec::new();
    let mut check = |claimed: bool, what: &'static str, answer: Result<(), Denied>| match answer {
        _ if claimed => Ok(()),
        Err(Denied::Invalid(_)) => {
            refused.push(what);
            Ok(())
        }
        other => Err(Stop::failed(format!("{what} is not claimed and answers {other:?}"))),
    };
    if !claims.shared {
        let answer = party.ask(Ask::new(key.clone()).shared()).await;
        check(false, "shared", answer.map(drop))?;
    }
    if !claims.several_keys {
        let ask = Ask::all(vec![key.clone(), ground.key("b")?]);
        check(false, "several keys", backend.acquire(&party.session, &ask).await.map(drop))?;
    }
    check(claims.listing, "listing", backend.list(ground.prefix()).await.map(drop))?;
    if !claims.breaking {
        check(false, "breaking", backend.break_lock(&key, "conformance", "the suite").await.map(drop))?;
    }
    if !claims.sessions {
        check(false, "ending sessions", backend.end_session(&party.session).await)?;
    }
    Ok(if refused.is_empty() {
        "everything is claimed".to_owned()
    } else {
        format!("refused: {}", refused.join(", "))
    })
}
