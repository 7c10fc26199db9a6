//! The scenes with a fleet: a daemon that runs agents, on schedule and on demand.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use bell_coord::Coord;
use bell_coord::work::wall_now;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::Verdict;
use bell_core::work::job::JobId;
use bell_core::work::row::What;
use bell_core::work::run::{End, RunId};
use bell_locks::guard::file;
use bell_store::clock::boottime;
use rustix::process::{Pid, Signal, kill_process};

use super::Story;
use super::script::{LOOK_EVERY, Played, check};
use super::site::Site;
use crate::span::words;

const MINUTE_MS: u64 = 60_000;
/// A minute that is nearer than this is waited for.
const NEAR_MS: u64 = 5_000;
/// Rows of history that are looked through: more than the story writes.
const ROWS: usize = 200;

/// Writes the project and starts its daemon; also answers for which tick the clock will run.
pub(super) async fn begin(coord: &Coord, folder: &Path, url: &str) -> Result<(Site, Due), String> {
    let due = set_clock(coord).await?;
    Ok((Site::start(folder, url).await?, due))
}

/// For a schedule that nobody has seen before nothing is overdue. Unless the next minute is near, the story says that
/// it was seen a minute ago, so that the last tick is one that this daemon has to make up for.
async fn set_clock(coord: &Coord) -> Result<Due, String> {
    let now = wall_now().0;
    let last = now - now % MINUTE_MS;
    if now - last >= MINUTE_MS - NEAR_MS {
        return Ok(Due { nominal: Wall(last + MINUTE_MS), late_ms: None });
    }
    coord.first_seen(&name("clock")?, Wall(last - 1)).await.map_err(|denied| denied.to_string())?;
    Ok(Due { nominal: Wall(last), late_ms: Some(now - last) })
}

/// A tick of the clock's schedule.
pub(super) struct Due {
    nominal: Wall,
    /// How long ago it was due; `None`: it comes.
    late_ms: Option<u64>,
}

/// Plays the scenes.
pub(super) async fn play(story: &mut Story, coord: &Coord, site: &Site, due: &Due) -> Played {
    schedule(story, coord, site, due).await?;
    let [first, second] = contend(story, coord, site).await?;
    crash(story, coord, site, &first, &second).await?;
    late_write(story, coord, site, &first, &second).await?;
    call(story, site).await
}

async fn schedule(story: &mut Story, coord: &Coord, site: &Site, due: &Due) -> Played {
    story.scene("A schedule starts an agent");
    story.tell(format!("process {} runs the project: agents clock, desk and chief", site.daemon()));
    let clock = name("clock")?;
    let job = loop {
        let page = coord.fires(&clock, None, ROWS).await.map_err(|denied| denied.to_string())?;
        match page.rows.into_iter().find(|(nominal, _)| *nominal == due.nominal).map(|(_, fire)| fire.verdict)
        {
            Some(Verdict::Job { job }) => break job,
            Some(Verdict::Skipped { reason }) => return Err(format!("the tick was skipped: {reason}")),
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    let (run, end) = ended(coord, &job).await?;
    check(end == End::Completed, || format!("{run} should have completed: {end}"))?;
    let at = time_of_day(due.nominal);
    story.tell(match due.late_ms {
        None => format!("clock is due every minute: at {at} the daemon starts {run}, which completes"),
        Some(late) => format!(
            "clock is due every minute; its tick of {at} came {} before this daemon did, and is made up for: {run} completes",
            words(Duration::from_millis(late))
        ),
    });
    Ok(())
}

/// A run of the desk.
struct AtDesk {
    run: RunId,
    pid: Pid,
    job: JobId,
}

/// Two runs want the desk. Answers who has it first, and who waits.
async fn contend(story: &mut Story, coord: &Coord, site: &Site) -> Result<[AtDesk; 2], String> {
    story.scene("Two runs of one agent want desk://demo");
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let answer = site.run("desk", &[]).await?;
        let job = answer["job"].as_str().ok_or_else(|| format!("bell run answered {answer}"))?;
        jobs.push(JobId::from(job));
    }
    let key = Key::parse("desk://demo").map_err(|error| format!("could not {error}"))?;
    until(async || {
        for job in &jobs {
            goes_on(coord, job).await?;
        }
        let state = coord.show(&key).await.map_err(|denied| denied.to_string())?;
        let all_there = site.lines("came").len() == 2 && site.lines("sat").len() == 1;
        Ok(all_there && state.waiting.len() == 1)
    })
    .await?;
    let has_it = sat(site, 0)?;
    let mut runs = Vec::new();
    for line in site.lines("came") {
        let [run, pid] = &line[..] else { return Err(format!("an agent wrote {line:?}")) };
        let pid = pid.parse().ok().and_then(Pid::from_raw).ok_or_else(|| format!("{pid} is no process"))?;
        let run = RunId::from(run.as_str());
        let job = coord.run(&run).await.map_err(|denied| denied.to_string())?;
        let job = job.ok_or_else(|| format!("{run} is not on record"))?.0.job;
        check(jobs.contains(&job), || format!("{run} does another job than was asked for"))?;
        runs.push(AtDesk { run, pid, job });
    }
    runs.sort_by_key(|at_desk| at_desk.run != has_it.0);
    let [first, second] =
        <[AtDesk; 2]>::try_from(runs).map_err(|_| "two runs should have come".to_owned())?;
    story.tell(format!("bell run desk, twice: {} has the lock, with fence {}", first.run, has_it.1));
    story.tell(format!("{} waits in line for it", second.run));
    Ok([first, second])
}

/// The one that has it dies without a word.
async fn crash(story: &mut Story, coord: &Coord, site: &Site, first: &AtDesk, second: &AtDesk) -> Played {
    story.scene("The run that has the lock is killed");
    let killed = boottime();
    kill_process(first.pid, Signal::KILL).map_err(|error| format!("could not kill a process: {error}"))?;
    until(async || {
        goes_on(coord, &second.job).await?;
        Ok(site.lines("sat").len() == 2)
    })
    .await?;
    let took = boottime().saturating_sub(killed);
    let (old, new) = (sat(site, 0)?, sat(site, 1)?);
    check(new.0 == second.run && new.1 > old.1, || format!("{} should have the lock now", second.run))?;
    let (run, end) = ended(coord, &first.job).await?;
    check(run == first.run && end == End::Crashed { signal: 9 }, || {
        format!("{} should have crashed: {end}", first.run)
    })?;
    let pid = first.pid.as_raw_nonzero();
    story.tell(format!("its process {pid} gets SIGKILL; {} is on record as {end}", first.run));
    story.tell(format!("{} later {} has the lock, with fence {}", words(took), second.run, new.1));
    Ok(())
}

/// What the dead run had under way arrives after its successor has written.
async fn late_write(
    story: &mut Story,
    coord: &Coord,
    site: &Site,
    first: &AtDesk,
    second: &AtDesk,
) -> Played {
    story.scene("A write of the killed run arrives late");
    let (old, new) = (sat(site, 0)?.1, sat(site, 1)?.1);
    std::fs::write(site.path("leave"), "").map_err(|error| error.to_string())?;
    let (_, end) = ended(coord, &second.job).await?;
    check(end == End::Completed, || format!("{} should have completed: {end}", second.run))?;
    let report = site.path("report.txt");
    let content = || std::fs::read_to_string(&report).map_err(|error| error.to_string());
    let written = content()?;
    check(written.contains(second.run.as_str()), || format!("the report is not of {}", second.run))?;
    story.tell(format!("{} writes the report with fence {new}, and completes", second.run));
    match file::write(&report, old, b"too late\n") {
        Err(file::GuardError::Stale(stale)) if stale.seen == new => {}
        Err(error) => return Err(format!("the late write should have been refused as stale: {error}")),
        Ok(()) => return Err("the late write got through".to_owned()),
    }
    check(content()? == written, || "the late write changed the report".to_owned())?;
    story.tell(format!(
        "a write with the fence of {}, {old}, is refused: the report has seen {new}",
        first.run
    ));
    Ok(())
}

async fn call(story: &mut Story, site: &Site) -> Played {
    story.scene("One agent calls another");
    let answer = site.run("chief", &["--wait"]).await?;
    let returned = answer["returned"].as_str().unwrap_or_default();
    let is_of_clock = returned.starts_with("it is ") && returned.contains("says clock-");
    check(is_of_clock, || format!("chief should have brought an answer of clock: {answer}"))?;
    story.tell(format!("chief calls clock and waits; clock runs, and returns: {returned}"));
    Ok(())
}

/// Who has had the lock, in order, and with which fence.
fn sat(site: &Site, place: usize) -> Result<(RunId, Fence), String> {
    let lines = site.lines("sat");
    let line = lines.get(place).ok_or_else(|| "nobody has the lock".to_owned())?;
    let [run, fence] = &line[..] else { return Err(format!("an agent wrote {line:?}")) };
    let fence = fence.parse().map_err(|error| format!("the fence {fence:?} can't be read: {error}"))?;
    Ok((RunId::from(run.as_str()), Fence(fence)))
}

/// Waits for the end of the run that did a job.
async fn ended(coord: &Coord, job: &JobId) -> Result<(RunId, End), String> {
    loop {
        match end_of(coord, job).await? {
            Some(end) => return Ok(end),
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// The end of the run that did a job, if it has ended.
async fn end_of(coord: &Coord, job: &JobId) -> Result<Option<(RunId, End)>, String> {
    let page = coord.history(None, ROWS).await.map_err(|denied| denied.to_string())?;
    Ok(page.rows.into_iter().find_map(|(_, event)| match event.what {
        What::RunEnded { run, end, .. } if event.job.as_ref() == Some(job) => Some((run, end)),
        _ => None,
    }))
}

/// That a job is still being done: otherwise what is waited for never comes.
async fn goes_on(coord: &Coord, job: &JobId) -> Played {
    let end = end_of(coord, job).await?;
    end.map_or(Ok(()), |(run, end)| Err(format!("{run} should be at it, and has ended: {end}")))
}

async fn until(is_so: impl AsyncFn() -> Result<bool, String>) -> Played {
    while !is_so().await? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn name(text: &str) -> Result<AgentName, String> {
    AgentName::from_str(text).map_err(|error| format!("the name {text} {error}"))
}

/// As clocks in Greenwich show it.
fn time_of_day(at: Wall) -> String {
    let seconds = at.0 / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_two_digits_each() {
        assert_eq!(time_of_day(Wall(1_780_315_445_000)), "12:04:05 UTC");
    }
}
