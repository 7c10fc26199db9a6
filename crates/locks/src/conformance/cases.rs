//! Which case is about which rule, what it needs, and when it can run.

use std::pin::Pin;

use bell_store::info::{Clock, Push, Scope};

use super::ground::{Done, Ground};
use super::report::Rule;
use super::{
    breaking, busy, deadlock, ending, expiry, failing, fences, granting, holding, keys, outcomes, pausing,
    processes, promises, queue, reading, repeating, sessions, several, writing,
};
use crate::backend::Capabilities;

/// One thing that every backend that claims it must do.
pub(super) struct Case {
    pub(super) rule: Rule,
    pub(super) when: When,
    name: &'static str,
    needs: &'static [Need],
    pub(super) run: fn(Ground) -> Pin<Box<dyn Future<Output = Done> + Send>>,
}

/// When a case can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// First, with nobody else on the storage.
    Alone,
    /// At any time, beside others.
    Together,
    /// After the others: it keeps the machine too busy for those that measure.
    Last,
}

/// What a backend must claim for a case to apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Shared,
    SeveralKeys,
    Fifo,
    Push,
    DeadlockDetection,
    Sessions,
    Listing,
    Breaking,
    RestartSurvival,
    RealTime,
    Processes,
}

impl Case {
    /// What must be so.
    pub(super) fn sentence(&self) -> String {
        self.short_name().replace('_', " ")
    }

    /// The name of the function.
    pub(super) fn short_name(&self) -> &'static str {
        self.name.rsplit("::").next().unwrap_or(self.name).trim()
    }

    pub(super) fn needs_processes(&self) -> bool {
        self.needs.contains(&Need::Processes)
    }

    /// Why the case says nothing about this backend.
    pub(super) fn not_applicable(&self, ground: &Ground) -> Option<String> {
        let claims = ground.capabilities();
        let missing = self.needs.iter().find_map(|need| need.missing(&claims, ground.url().as_deref()))?;
        Some(format!("not applicable: {missing}"))
    }
}

impl Need {
    fn missing(self, claims: &Capabilities, url: Option<&str>) -> Option<&'static str> {
        let (claimed, missing) = match self {
            Self::Shared => (claims.shared, "leases can't be shared"),
            Self::SeveralKeys => (claims.several_keys, "one key at a time"),
            Self::Fifo => (claims.fifo, "waiters are served in no order"),
            Self::Push => (claims.push == Push::Push, "changes are looked for, not pushed"),
            Self::DeadlockDetection => (claims.deadlock_detection, "cycles are not looked for"),
            Self::Sessions => (claims.sessions, "sessions can't be ended"),
            Self::Listing => (claims.listing, "locks can't be listed"),
            Self::Breaking => (claims.breaking, "locks can't be broken"),
            Self::RestartSurvival => (claims.fences_survive_restart, "nothing survives a restart"),
            Self::RealTime => (claims.clock != Clock::Manual, "the clock is moved by hand"),
            Self::Processes => (url.is_some() && claims.scope > Scope::Process, "one process only"),
        };
        (!claimed).then_some(missing)
    }
}

macro_rules! cases {
    ($($rule:literal $when:ident [$($need:ident)*] $case:path;)+) => {
        &[$(Case {
            rule: Rule($rule),
            when: When::$when,
            name: stringify!($case),
            needs: &[$(Need::$need),*],
            run: |ground| Box::pin($case(ground)),
        },)+]
    };
}

/// Every case. Those that take long come first within a rule, since they are started in this order.
pub(super) const CASES: &[Case] = cases! {
    1 Together [] keys::two_spellings_of_a_key_are_one_lock;
    1 Together [] keys::keys_that_differ_are_different_locks;
    1 Together [] keys::the_longest_key_is_a_lock;
    1 Together [] keys::what_is_no_key_is_refused_with_the_reason;
    1 Together [] keys::a_scope_has_locks_of_its_own;

    2 Last     [Processes] processes::two_processes_racing_for_a_key_never_both_have_it;
    2 Together [] granting::an_exclusive_lease_keeps_everybody_else_out;
    2 Together [Shared] granting::shared_leases_coexist_with_shared_ones_only;
    2 Together [] granting::a_race_has_one_winner;
    2 Together [] granting::of_many_who_wait_one_at_a_time_is_inside;

    3 Alone    [RestartSurvival] fences::a_fence_rises_over_reopening;
    3 Together [] fences::a_fence_rises_over_release;
    3 Together [RealTime] fences::a_fence_rises_over_expiry;
    3 Together [Breaking] fences::a_fence_rises_over_a_break;
    3 Together [Sessions] fences::a_fence_rises_over_the_end_of_a_session;
    3 Together [Shared] fences::shared_grants_have_rising_fences_too;

    4 Together [RealTime] granting::taking_a_held_key_again_refreshes_its_ttl;
    4 Together [] granting::taking_a_held_key_again_gives_the_same_lease;
    4 Together [] granting::one_release_frees_a_key_taken_twice;

    5 Together [] busy::busy_tells_who_holds_the_key_and_for_how_long;
    5 Together [Fifo] busy::busy_tells_how_many_wait;
    5 Together [] busy::a_refused_request_leaves_no_trace;

    6 Together [Fifo Processes] processes::a_killed_waiter_does_not_block_those_behind_it;
    6 Together [] queue::a_waiter_gets_the_key_when_it_is_released;
    6 Together [Push] queue::no_wake_up_is_lost;
    6 Together [Fifo] queue::waiters_are_served_in_the_order_they_came;
    6 Together [Fifo] queue::nobody_overtakes_a_waiter;
    6 Together [Fifo] queue::a_waiter_that_gives_up_does_not_block_those_behind_it;
    6 Together [Fifo] queue::a_dropped_waiter_does_not_block_those_behind_it;
    6 Together [Fifo Sessions] queue::a_waiter_whose_session_ended_is_not_granted_and_does_not_block;
    6 Together [Fifo] queue::a_waiter_that_calls_again_keeps_its_place;
    6 Together [Fifo Shared] queue::a_shared_request_does_not_overtake_an_exclusive_waiter;

    7 Together [SeveralKeys] several::several_keys_are_granted_together_or_not_at_all;
    7 Together [SeveralKeys] several::opposite_orders_never_deadlock;
    7 Together [SeveralKeys Listing] several::no_partial_grant_is_ever_visible;

    8 Together [DeadlockDetection Fifo] deadlock::a_cycle_of_two_is_refused_with_its_path;
    8 Together [DeadlockDetection Fifo] deadlock::a_cycle_of_three_is_refused_with_its_path;
    8 Together [DeadlockDetection Fifo] deadlock::a_cycle_of_ten_is_refused_with_its_path;
    8 Together [DeadlockDetection] deadlock::of_those_who_close_a_cycle_at_once_exactly_one_is_refused;
    8 Together [DeadlockDetection] deadlock::who_no_longer_waits_is_in_no_cycle;

    9 Together [RealTime] expiry::a_lease_ends_by_itself_and_not_early;
    9 Together [RealTime] expiry::what_has_run_out_is_free_at_once;
    9 Together [] expiry::a_ttl_out_of_bounds_is_refused;

    10 Together [RealTime Processes] processes::a_clock_an_hour_ahead_changes_nothing;
    10 Together [RealTime Processes] processes::a_clock_an_hour_behind_changes_nothing;

    11 Together [RealTime] holding::a_holder_stops_before_the_store_does;
    11 Together [] holding::the_deadline_leaves_the_margin;

    12 Together [RealTime] holding::a_lease_is_kept_while_its_holders_executor_is_blocked;
    12 Together [RealTime] holding::the_third_failed_renewal_means_lost;
    12 Together [RealTime] holding::two_failed_renewals_are_made_good;
    12 Together [RealTime] holding::an_answer_that_another_holds_it_means_lost_at_once;
    12 Together [RealTime] holding::lost_is_final;
    12 Together [RealTime] expiry::a_renewal_extends_from_now;

    13 Together [RealTime] holding::a_loss_is_told_to_who_waits_for_it;

    14 Together [] ending::only_the_holder_can_release;
    14 Together [] ending::only_the_holder_can_renew;
    14 Together [] ending::a_free_key_is_not_held;

    15 Together [RealTime] ending::a_renewal_does_not_bring_back_what_has_run_out;
    15 Together [] ending::a_release_can_be_repeated;
    15 Together [] ending::a_late_release_leaves_the_successor_alone;
    15 Together [] ending::a_late_renewal_leaves_the_successor_alone;
    15 Together [] ending::a_late_act_leaves_a_later_lease_of_the_same_session_alone;

    16 Together [Processes] processes::what_a_killed_process_held_is_free_in_time;
    16 Together [Sessions] sessions::the_end_of_a_session_frees_all_it_held;
    16 Together [Sessions Fifo] sessions::the_end_of_a_session_serves_who_waited;
    16 Together [Sessions] sessions::an_ended_session_gets_nothing_more;
    16 Together [Sessions] sessions::a_dropped_program_leaves_nothing_behind;

    17 Together [Breaking] breaking::a_break_frees_the_key_and_raises_the_fence;
    17 Together [Breaking Sessions] breaking::a_break_is_told_to_the_holder;
    17 Together [Breaking Fifo] breaking::a_break_serves_who_waited;
    17 Together [Breaking] breaking::a_free_key_can_not_be_broken;

    18 Together [] reading::reading_disturbs_no_acquiring;
    18 Together [Listing] reading::a_listing_shows_what_is_held_and_nothing_else;

    19 Together [] writing::a_guard_accepts_a_write_with_the_highest_fence_only;

    20 Together [RealTime Processes] pausing::a_paused_process_never_writes_again;
    20 Together [] writing::a_stale_writer_never_writes_again;

    21 Together [] failing::an_unreachable_backend_grants_nothing;
    21 Together [RealTime] failing::a_silent_backend_leaves_the_holders_deadline_standing;

    22 Alone    [RestartSurvival] promises::a_grant_survives_reopening;
    22 Together [] promises::what_is_not_claimed_is_refused_as_invalid;
    22 Together [] promises::the_claims_agree_with_each_other;

    23 Together [] repeating::a_request_whose_answer_was_lost_has_one_outcome;
    23 Together [] repeating::a_repeated_request_has_one_outcome;
    23 Together [RealTime] repeating::no_grant_that_nobody_knows_of_outlives_its_ttl;

    24 Together [] outcomes::each_refusal_has_its_own_name;
    24 Together [DeadlockDetection Fifo] outcomes::a_deadlock_is_neither_busy_nor_timed_out;
};
