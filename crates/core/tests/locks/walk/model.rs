//! Locks as one would explain them: a list of who holds what, one line of who wants what, and a look at
//! everything after each step. Written without the code under test.

/// A lease.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) session: usize,
    pub(crate) key: usize,
    pub(crate) shared: bool,
    pub(crate) request: u32,
    pub(crate) ttl: u64,
    pub(crate) expires: u64,
    /// Learned from the other side, once.
    pub(crate) fence: Option<u64>,
}

/// A place in the line.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) session: usize,
    pub(crate) request: u32,
    pub(crate) keys: Vec<usize>,
    pub(crate) shared: bool,
    pub(crate) ttl: u64,
    pub(crate) until: u64,
    /// Keys that its session held when it asked: it stands before all who waited for them.
    pub(crate) first_on: Vec<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Each key, and whether it was held before.
    Granted(Vec<(usize, bool)>),
    Busy,
    Queued,
    Deadlock,
    SessionEnded,
    Upgrade,
    Renewed,
    Released,
    NotHolder,
    NotHeld,
}

pub(crate) const GRACE: u64 = 5_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: u64,
    /// When each session ends; zero: it has.
    pub(crate) ends: Vec<u64>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) line: Vec<Want>,
}

impl Model {
    pub(crate) fn alive(&self, session: usize) -> bool {
        self.now < self.ends[session]
    }

    /// Forgets what is over and grants what can be granted, first come first.
    pub(crate) fn settle(&mut self) {
        let (now, ends) = (self.now, self.ends.clone());
        self.holds.retain(|hold| now < hold.expires && now < ends[hold.session]);
        self.line.retain(|want| now < want.until && now < ends[want.session]);
        while let Some(place) = (0..self.line.len()).find(|place| self.is_open(&self.line[*place], *place)) {
            let want = self.line.remove(place);
            self.grant(&want);
        }
    }

    pub(crate) fn acquire(&mut self, want: &Want, waits: bool) -> Told {
        if !self.alive(want.session) {
            return Told::SessionEnded;
        }
        if want.keys.iter().any(|key| self.held(want.session, *key).is_some_and(|h| h.shared && !want.shared))
        {
            return Told::Upgrade;
        }
        if self.is_open(want, self.line.len()) {
            return Told::Granted(self.grant(want));
        }
        if !waits {
            return Told::Busy;
        }
        if let Some(place) = self.line.iter_mut().find(|place| place.request == want.request) {
            place.until = want.until;
            return Told::Queued;
        }
        let held = want.keys.iter().copied().filter(|key| self.held(want.session, *key).is_some());
        self.line.push(Want { first_on: held.collect(), ..want.clone() });
        if self.waits_for_itself(want.session) {
            self.line.pop();
            return Told::Deadlock;
        }
        Told::Queued
    }

    pub(crate) fn renew(&mut self, session: usize, key: usize, fence: Option<u64>) -> Told {
        let now = self.now;
        let lease = self.holds.iter_mut().find(|hold| hold.session == session && hold.key == key);
        match lease.filter(|hold| fence.is_none() || hold.fence == fence) {
            Some(hold) => {
                hold.expires = now + hold.ttl;
                Told::Renewed
            }
            None => self.not_held(key),
        }
    }

    pub(crate) fn release(&mut self, session: usize, key: usize, fence: Option<u64>) -> Told {
        let meant = |hold: &Hold| {
            hold.session == session && hold.key == key && (fence.is_none() || hold.fence == fence)
        };
        if self.holds.iter().any(meant) {
            self.holds.retain(|hold| !meant(hold));
            return Told::Released;
        }
        match self.not_held(key) {
            Told::NotHeld if fence.is_some() => Told::Released,
            Told::NotHolder if self.held(session, key).is_some() => Told::Released,
            other => other,
        }
    }

    pub(crate) fn held(&self, session: usize, key: usize) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.session == session && hold.key == key)
    }

    fn not_held(&self, key: usize) -> Told {
        if self.holds.iter().any(|hold| hold.key == key) { Told::NotHolder } else { Told::NotHeld }
    }

    fn grant(&mut self, want: &Want) -> Vec<(usize, bool)> {
        let expires = self.now + want.ttl;
        let mut granted = Vec::new();
        for key in &want.keys {
            let held = self.holds.iter_mut().find(|hold| hold.session == want.session && hold.key == *key);
            granted.push((*key, held.as_ref().is_some_and(|hold| hold.request != want.request)));
            match held {
                Some(hold) => {
                    hold.ttl = hold.ttl.max(want.ttl);
                    hold.expires = self.now + hold.ttl;
                }
                None => self.holds.push(Hold {
                    session: want.session,
                    key: *key,
                    shared: want.shared,
                    request: want.request,
                    ttl: want.ttl,
                    expires,
                    fence: None,
                }),
            }
        }
        granted
    }

    fn is_open(&self, want: &Want, place: usize) -> bool {
        want.keys.iter().all(|key| self.in_the_way(want, *key, place).is_empty())
    }

    fn in_the_way(&self, want: &Want, key: usize, place: usize) -> Vec<usize> {
        if self.held(want.session, key).is_some() {
            return Vec::new();
        }
        let clash = |session: usize, shared: bool| session != want.session && !(shared && want.shared);
        let holders = self.holds.iter().filter(|hold| hold.key == key && clash(hold.session, hold.shared));
        let line = self.line.iter().enumerate().filter(|(_, other)| other.keys.contains(&key));
        let first = want.first_on.contains(&key);
        let ahead = line.filter(|(n, other)| !first && (*n < place || other.first_on.contains(&key)));
        let ahead = ahead.map(|(_, other)| other).filter(|other| clash(other.session, other.shared));
        holders.map(|hold| hold.session).chain(ahead.map(|other| other.session)).collect()
    }

    /// Who waits for a key, in order.
    pub(crate) fn waiting(&self, key: usize) -> Vec<usize> {
        let line = || self.line.iter().filter(|want| want.keys.contains(&key));
        let first = line().rev().filter(|want| want.first_on.contains(&key));
        let rest = line().filter(|want| !want.first_on.contains(&key));
        first.chain(rest).map(|want| want.session).collect()
    }

    fn waits_for_itself(&self, start: usize) -> bool {
        let mut seen = Vec::new();
        let mut next = vec![start];
        while let Some(session) = next.pop() {
            for (place, want) in self.line.iter().enumerate().filter(|(_, want)| want.session == session) {
                for key in &want.keys {
                    for other in self.in_the_way(want, *key, place) {
                        if other == start {
                            return true;
                        }
                        if !seen.contains(&other) {
                            seen.push(other);
                            next.push(other);
                        }
                    }
                }
            }
        }
        false
    }
}
