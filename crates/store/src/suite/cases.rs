//! The list of all cases, once, for the table and for the tests alike.

use std::pin::Pin;

use super::ground::{Done, Ground};
use super::{changes, clock, commits, contention, limits, presence, scans, versions};

/// One thing that every store must do.
pub struct Case {
    /// Its theme and what it says, as in `scans::a_scan_starts_between_names`.
    pub name: &'static str,
    pub(super) run: fn(Ground) -> Pin<Box<dyn Future<Output = Done> + Send>>,
}

/// Calls a macro with an argument and the list of all cases by theme.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_suite_list {
    ([$($call:tt)+] $argument:tt) => {
        $($call)+! {
            $argument
            commits {
                a_commit_writes_all_its_records
                a_commit_can_put_and_delete_together
                writes_without_expectations_apply_to_whatever_is_there
                a_deleted_record_is_not_read
                deleting_what_is_not_there_succeeds
                absent_holds_for_a_missing_record
                absent_holds_again_after_deletion
                absent_conflicts_with_an_existing_record
                the_current_version_holds
                an_older_version_conflicts
                a_version_conflicts_with_a_missing_record
                a_version_of_another_record_conflicts
                an_expectation_on_a_record_not_written_counts
                one_failed_expectation_of_many_writes_nothing
                a_conflict_carries_the_expected_records_as_they_are
                a_conflict_tells_revision_and_time
                what_a_conflict_carries_makes_the_next_try_succeed
                a_transaction_without_writes_takes_no_revision
                a_transaction_without_writes_can_conflict
                what_one_handle_commits_the_other_reads
            }
            contention {
                no_increment_is_lost
                of_many_creations_one_wins
                commits_of_different_records_do_not_conflict
                commits_at_once_have_different_revisions
                no_read_sees_half_a_commit
                no_scan_sees_half_a_commit
            }
            versions {
                a_record_has_the_version_of_its_commit
                the_records_of_a_commit_share_its_version
                versions_rise_with_every_write
                a_write_leaves_the_versions_of_other_records_alone
                versions_rise_over_deletion
                revisions_rise_in_the_order_of_commits
                a_deletion_takes_a_revision
                a_snapshot_is_as_of_the_last_commit
                a_new_stamp_is_the_revision_of_the_commit
                a_kept_stamp_stays_while_the_version_rises
                a_created_record_gets_a_new_stamp_even_if_told_to_keep_it
                stamps_rise_over_deletion
                scans_and_conflicts_show_the_same_record_as_reads
                records_survive_reopening
                versions_rise_over_reopening
            }
            scans {
                a_scan_finds_what_has_its_prefix_and_nothing_else
                a_scan_of_an_unused_prefix_is_empty
                a_scan_leaves_out_deleted_records
                a_scan_carries_values_and_versions
                a_page_holds_the_first_names_in_byte_order
                names_outside_ascii_are_started_from_by_bytes
                more_is_said_exactly_when_records_were_left
                a_page_of_none_only_tells_whether_there_are_any
                a_scan_starts_at_the_name_it_is_given
                a_scan_starts_between_names
                starting_before_the_prefix_is_starting_with_it
                starting_behind_the_prefix_finds_nothing
                pages_put_together_are_every_record_once
                a_prefix_means_its_characters_and_no_pattern
                letters_of_different_case_are_different
                a_prefix_includes_names_that_go_on_with_the_last_character
                a_scan_gives_no_more_than_a_page
            }
            limits {
                the_store_takes_what_every_store_must_take
                an_empty_value_is_a_value
                every_byte_comes_back
                the_largest_value_is_taken
                a_larger_value_is_refused
                the_longest_name_is_taken
                a_longer_name_is_refused
                an_empty_name_is_refused
                the_largest_transaction_is_taken
                too_many_writes_are_refused
                too_many_expectations_are_refused
                a_page_of_names_can_be_read_at_once_and_no_more
                a_name_written_twice_is_refused
                a_name_read_twice_is_answered_once
            }
            clock {
                the_clock_never_goes_back
                the_clock_advances
                both_handles_tell_the_same_time
                a_commit_decided_for_now_goes_through
                a_commit_decided_for_the_future_conflicts
                a_commit_decided_too_long_ago_conflicts
                a_check_decided_too_long_ago_conflicts
            }
            changes {
                a_waiter_hears_of_a_write
                a_waiter_hears_of_a_creation
                a_waiter_hears_of_a_deletion
                a_waiter_hears_of_any_of_its_names
                a_waiter_hears_of_its_record_after_changes_of_others
                a_waiter_hears_of_what_the_other_handle_writes
                a_change_before_the_wait_is_heard_at_once
                a_waiter_on_a_prefix_hears_of_a_write
                a_waiter_on_a_prefix_hears_of_a_creation
                a_waiter_on_a_prefix_hears_of_a_deletion
                a_waiter_on_a_prefix_hears_of_what_the_other_handle_writes
                a_waiter_on_a_prefix_hears_of_its_record_after_changes_of_others
                a_change_under_a_prefix_before_the_wait_is_heard_at_once
                every_one_of_many_waiters_hears
                waits_that_were_dropped_are_in_nobodys_way
                waiting_is_not_spinning
            }
            presence {
                a_session_that_attends_is_not_gone
                a_session_that_never_attended_is_not_gone
                a_session_whose_attendance_ended_is_gone_for_all
                one_session_that_goes_leaves_the_others_present
                a_forgotten_session_is_as_if_it_had_never_been
                where_death_is_not_noticed_nobody_is_gone
            }
        }
    };
}

macro_rules! table {
    (() $($theme:ident { $($case:ident)+ })+) => {
        &[$($(Case {
            name: concat!(stringify!($theme), "::", stringify!($case)),
            run: |ground| Box::pin($theme::$case(ground)),
        },)+)+]
    };
}

/// Every case, in the order in which [`run`](super::run) tries them.
pub const CASES: &[Case] = crate::__store_suite_list!([table]());

#[doc(hidden)]
#[macro_export]
macro_rules! __store_suite_tests {
    (($fixture:expr) $($theme:ident { $($case:ident)+ })+) => {
        $(mod $theme {
            use super::*;
            $(#[test]
            fn $case() {
                $crate::suite::test_case($fixture, concat!(stringify!($theme), "::", stringify!($case)));
            })+
        })+
    };
}

/// Makes one test of each case. The argument is an expression for a [`Fixture`](crate::suite::Fixture),
/// evaluated anew in every test, so that each has a storage of its own.
#[macro_export]
macro_rules! store_suite {
    ($fixture:expr) => {
        $crate::__store_suite_list!([$crate::__store_suite_tests]($fixture));
    };
}
