//! The suite of the store port: sections 7 and 8 of the design, one function a clause or half
//! a clause, in the files below; [`store_suite!`](crate::store_suite) makes a test of each.
//!
//! Not here, because the port cannot show them: ST-10 (what a worker does while the store is
//! away), ST-13's hand-over to the holder, ST-14 (migrations), ST-16's look at the holder's
//! process, ST-17 (the port has no call that changes an event). Each adapter tests its own.

pub mod append;
pub mod atomic;
pub mod bad_input;
pub mod claim;
pub mod handles;
pub mod idle;
pub mod inbox;
pub mod lease;
pub mod read;
pub mod readback;
pub mod wake;
pub mod workers;

/// The one list of the store suite: hands every file with its clauses to the macro `$then`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_store_clauses {
    ([$($then:tt)+], $($context:tt)*) => {
        $($then)+! { $($context)*;
            claim:
                st_1_a_claim_brings_head_items_and_a_secret,
                st_1_nothing_is_claimed_before_its_time,
                st_1_queues_bound_what_is_claimed,
                st_1_classes_come_in_order_then_the_longest_due,
                st_1_at_most_so_many_are_claimed,
                st_1_a_named_task_and_exceptions_are_respected,
                st_1_two_workers_never_get_the_same_task,
                st_1_two_handles_never_get_the_same_task,
                st_12_sleepers_are_never_handed_out;
            lease:
                st_2_renew_extends_every_claim_that_holds,
                st_5_an_expired_lease_can_be_renewed,
                st_5_a_worker_that_stalled_is_refused,
                st_2_release_hands_back,
                st_2_release_leaves_who_waits_or_is_over,
                st_5_an_expired_claim_can_be_handed_back,
                st_6_leases_run_by_the_stores_clock;
            append:
                st_3_an_append_stores_exact_bytes_and_the_row,
                st_3_there_is_no_append_without_a_claim,
                st_3_an_old_epoch_is_stale,
                st_3_an_epoch_from_the_future_is_unknown,
                st_3_a_released_claim_is_refused,
                st_3_a_wrong_token_is_refused,
                st_3_an_expired_lease_is_refused,
                st_3_a_batch_beside_the_head_is_refused,
                st_3_no_suspend_or_end_over_an_unseen_item,
                st_3_checks_come_in_order,
                st_3_one_of_two_racing_appends_is_written;
            atomic:
                st_4_a_suspend_or_an_end_releases,
                st_4_a_batch_may_release,
                st_13_a_waiting_task_may_stay_held,
                st_13_a_task_whose_jobs_lost_their_holder_is_claimable_at_once,
                st_4_children_come_with_their_parents_event,
                st_4_a_refused_batch_leaves_no_trace,
                co_2_bodies_are_written_with_their_events,
                co_3_bodies_that_come_with_events_outlive_a_removal,
                st_7_a_delivery_inside_an_append_never_fails_it,
                st_15_crossing_appends_all_land;
            inbox:
                st_7_an_item_is_kept_as_sent,
                st_7_a_key_delivers_once,
                st_7_a_key_with_another_item_is_a_conflict,
                st_7_a_key_asks_for_the_item_alone,
                st_7_a_key_holds_for_the_life_of_the_task,
                st_7_racing_senders_deliver_once,
                st_7_a_task_that_is_over_says_so,
                st_7_what_outlives_a_task_makes_it_claimable,
                st_7_what_cannot_be_delivered_is_refused,
                st_8_an_item_is_gone_when_an_append_takes_it,
                st_8_a_refused_append_takes_nothing;
            wake:
                st_7_the_item_that_is_waited_for_wakes,
                st_7_a_group_wakes_once_all_have_come,
                st_7_any_alternative_wakes,
                st_7_an_item_that_steers_wakes,
                st_7_an_item_leaves_what_is_awake_alone,
                st_7_an_order_to_stop_waits_for_no_not_before,
                st_7_a_suspend_makes_the_same_test,
                st_7_no_wake_is_lost_between_suspend_and_delivery,
                st_7_no_item_wakes_twice,
                st_6_a_timer_is_due_by_the_stores_clock,
                st_7_an_item_comes_before_the_timer;
            readback:
                st_9_reading_back_settles_a_commits_fate,
                st_9_a_worker_finds_what_it_holds,
                st_9_adopting_is_a_new_claim,
                st_9_nobody_else_adopts,
                st_16_a_key_creates_once,
                st_16_a_key_with_other_contents_is_a_conflict,
                st_16_racing_creations_make_one_task;
            idle:
                st_18_claims_without_an_append_are_counted,
                st_18_a_claim_handed_back_for_later_is_not_counted,
                st_18_a_claim_taken_up_again_is_not_counted,
                st_18_from_the_third_on_the_next_claim_waits,
                st_18_the_tenth_claim_blocks_the_task,
                st_18_a_holder_may_block_its_task;
            read:
                st_11_a_log_is_read_by_range,
                st_11_baselines_come_newest_first,
                st_11_a_row_shows_the_facts,
                st_16_reading_makes_nothing,
                st_11_lists_are_filtered_and_newest_first,
                st_11_pages_add_up_to_the_list,
                st_11_watch_tells_what_is_there,
                st_11_watch_sees_news_soon,
                st_11_waiting_for_work_ends_when_there_is_some,
                st_11_the_outlook_counts_holds_and_finds_what_is_next,
                st_11_reads_see_whole_appends;
            bad_input:
                st_3_a_batch_that_contradicts_itself_is_invalid,
                st_7_a_batch_that_delivers_what_nobody_takes_is_invalid,
                st_3_a_batch_for_another_task_is_invalid,
                st_8_what_is_not_there_cannot_be_taken,
                co_1_a_batch_with_a_false_body_is_invalid,
                st_4_a_false_child_is_invalid,
                st_3_a_false_new_task_is_refused,
                st_1_the_row_does_not_give_the_claim_away;
            handles:
                st_9_two_handles_are_one_store,
                st_5_a_claim_of_another_handle_fences,
                st_3_one_of_two_handles_appends_to_a_head,
                st_7_two_handles_deliver_once,
                st_7_a_delivery_by_another_handle_wakes,
                st_16_two_handles_create_once,
                co_2_a_body_is_there_for_another_handle;
            workers:
                st_19_workers_register,
                st_19_workers_deregister,
                st_19_a_silent_worker_is_gone;
        }
    };
}

/// Makes a test of every clause of the store suite; `$make` names an `async fn() -> Subject`
/// that returns a fresh, empty store at every call.
#[macro_export]
macro_rules! store_suite {
    ($make:path) => {
        mod store {
            $crate::with_store_clauses!([$crate::tests_of], store, $make);
        }
    };
}

/// Expands a suite's list into tests; the caller's path is seen from one module further out.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of {
    (store, $make:path; $($file:ident: $($clause:ident),+;)+) => {
        $($(
            #[test]
            fn $clause() {
                use super::*;
                $crate::run($make, $crate::store::$file::$clause);
            }
        )+)+
    };
    (model, $make:path; $($file:ident: $($clause:ident),+;)+) => {
        $($(
            #[test]
            fn $clause() {
                use super::*;
                $crate::run($make, $crate::model::$file::$clause);
            }
        )+)+
    };
    (content, $make:path; $($file:ident: $($clause:ident),+;)+) => {
        $($(
            #[test]
            fn $clause() {
                use super::*;
                $crate::run($make, $crate::$file::$clause);
            }
        )+)+
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    macro_rules! names_of {
        ($suite:ident, $none:path; $($file:ident: $($clause:ident),+;)+) => {
            [$((stringify!($file), &[$(stringify!($clause)),+][..])),+]
        };
    }

    /// The functions of a file of the suite.
    fn written(source: &str) -> BTreeSet<&str> {
        source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next()).collect()
    }

    #[test]
    fn every_function_of_the_suites_is_in_their_lists() {
        let stores = with_store_clauses!([names_of], store, none);
        let contents = crate::with_content_clauses!([names_of], content, none);
        let models = crate::with_model_clauses!([names_of], model, none);
        let stores = stores.map(|(file, clauses)| (format!("store/{file}"), clauses));
        let contents = contents.map(|(file, clauses)| (file.to_owned(), clauses));
        let models = models.map(|(file, clauses)| (format!("model/{file}"), clauses));
        for (file, clauses) in stores.into_iter().chain(contents).chain(models) {
            let path = format!("src/{file}.rs");
            let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
            let source = std::fs::read_to_string(path).expect("the suite's sources are there");
            assert_eq!(clauses.iter().copied().collect::<BTreeSet<_>>(), written(&source), "{file}");
        }
    }
}
