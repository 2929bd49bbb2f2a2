//! The suite of the store port: sections 7 and 8 of the design, one function a clause or half
//! a clause, in the files below; [`store_suite!`](crate::store_suite) makes a test of each.
//!
//! Not here, because the port cannot show them: ST-10 (what a worker does while the store is
//! away), ST-13's hand-over to the holder, ST-14 (migrations), ST-16's look at the holder's
//! process, ST-17 (the port has no call that changes an event). Each adapter tests its own.

pub mod claim;

/// The one list of the store suite: hands every file with its clauses to the macro `$then`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_store_clauses {
    ($then:path, $($context:tt)*) => {
        $then! { $($context)*;
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
        }
    };
}

/// Makes a test of every clause of the store suite; `$make` names an `async fn() -> Subject`
/// that returns a fresh, empty store at every call.
#[macro_export]
macro_rules! store_suite {
    ($make:path) => {
        mod store {
            $crate::with_store_clauses!($crate::tests_of, store $make);
        }
    };
}

/// Expands a suite's list into tests; the caller's path is seen from one module further out.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of {
    ($suite:ident $make:path; $($file:ident: $($clause:ident),+;)+) => {
        $($(
            #[test]
            fn $clause() {
                use super::*;
                $crate::run($make, $crate::$suite::$file::$clause);
            }
        )+)+
    };
}
