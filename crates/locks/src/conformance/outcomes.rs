//! L24: each refusal has its own name.

use std::time::Duration;

use bell_coord::{Ask, Denied};

use super::faulty::{Fault, Faulty};
use super::ground::{Done, Ground, PATIENCE, expects};

pub(super) async fn each_refusal_has_its_own_name(ground: Ground) -> Done {
    let (key, free) = (ground.key("a")?, ground.key("b")?);
    let (holder, other) = (ground.party(0)?, ground.party(1)?);
    let lease = holder.take(&key).await?;
    let briefly = Ask::new(key.clone()).wait(Duration::from_millis(100));
    let none = Ask { keys: Vec::new(), ..Ask::new(free.clone()) };
    let former = holder.take(&free).await?;
    holder.release(&former).await?;
    let way = Faulty::over(ground.handle(0));
    way.fail(Fault::Unreachable);
    use crate::backend::LockBackend as _;
    expects!(other.ask(Ask::new(key.clone())).await, Err(Denied::Busy(_)) => (), "busy");
    expects!(other.ask(briefly).await, Err(Denied::TimedOut(_)) => (), "timed out");
    expects!(other.renew(&lease).await, Err(Denied::NotHolder(_)) => (), "not the holder");
    expects!(holder.renew(&former).await, Err(Denied::NotHeld) => (), "not held");
    expects!(other.backend.acquire(&other.session, &none).await, Err(Denied::Invalid(_)) => (), "invalid");
    let unreachable = way.acquire(&other.session, &Ask::new(free)).await;
    expects!(unreachable, Err(Denied::Unavailable(_)) => (), "unavailable");
    Ok("busy, timed out, not holder, not held, invalid, unavailable".to_owned())
}

pub(super) async fn a_deadlock_is_neither_busy_nor_timed_out(ground: Ground) -> Done {
    let (a, b) = (ground.key("a")?, ground.key("b")?);
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    one.take(&a).await?;
    two.take(&b).await?;
    let (waiter, ask) = (one.clone(), Ask::new(b.clone()).wait(PATIENCE));
    let waiting = tokio::spawn(async move { waiter.ask(ask).await.map(|lease| lease.fence) });
    ground.until_waiting(&b, 1).await?;
    // Without waiting there is no deadlock: the key is busy.
    expects!(two.ask(Ask::new(a.clone())).await, Err(Denied::Busy(_)) => (), "busy");
    expects!(two.ask(Ask::new(a).wait(PATIENCE)).await, Err(Denied::Deadlock(_)) => (), "a deadlock");
    waiting.abort();
    Ok("busy without waiting, a deadlock with it".to_owned())
}
