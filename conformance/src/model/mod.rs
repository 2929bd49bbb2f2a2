//! The suite of the model port (MO-1 to MO-4, EV-5, EV-6, TO-4): an adapter asks a
//! [`server`] that answers from a script, whole, cut, slow or wrong;
//! [`model_suite!`](crate::model_suite) makes a test of each function.
//!
//! What a protocol looks like on the wire is told by a [`Protocol`], written independently of
//! any adapter; [`chat::Chat`] is that of chat completions.

pub mod chat;
mod conversation;
pub mod errors;
pub mod replies;
pub mod requests;
pub mod server;
pub mod streams;
mod subject;
pub mod waits;

pub use conversation::{conversation, question};
pub use subject::{Asked, EVENT_BYTES_MAX, KEY, KEY_VARIABLE, ModelSubject, Protocol, Said, Setup, Told, ask};

/// The one list of the model suite.
#[doc(hidden)]
#[macro_export]
macro_rules! with_model_clauses {
    ([$($then:tt)+], $($context:tt)*) => {
        $($then)+! { $($context)*;
            replies:
                mo_1_a_reply_has_text_thinking_calls_and_tokens,
                mo_1_an_empty_reply_is_a_reply,
                mo_1_tokens_may_be_missing,
                mo_1_reasons_to_stop_are_mapped_and_the_unknown_named,
                mo_1_other_streams_say_the_same,
                mo_4_what_is_not_understood_is_kept,
                ev_5_arguments_come_as_they_are,
                ev_6_text_that_is_no_unicode_is_replaced_and_noted;
            streams:
                mo_3_a_stream_that_is_cut_anywhere_is_an_error,
                mo_1_how_a_stream_is_cut_into_pieces_makes_no_difference,
                mo_1_lines_end_in_any_way,
                mo_1_comments_keep_a_stream_alive,
                mo_3_a_failure_inside_a_stream_is_an_error,
                rc_10_an_event_without_end_is_refused;
            errors:
                mo_3_too_many_requests_say_how_long_to_wait,
                mo_3_a_provider_that_fails_is_overloaded,
                mo_3_a_request_that_is_wrong_stays_wrong,
                mo_3_an_overflow_is_known_in_every_spelling,
                mo_3_a_refused_key_is_named_by_its_variable,
                mo_3_no_error_repeats_the_key,
                mo_3_a_redirect_is_refused,
                mo_3_a_server_that_is_not_there_is_named;
            waits:
                mo_3_a_silent_server_times_out,
                mo_3_a_stream_that_never_ends_times_out,
                mo_3_dropping_the_request_closes_it;
            requests:
                mo_2_the_same_request_is_the_same_bytes,
                mo_2_a_conversation_only_grows_at_its_end,
                mo_3_the_key_goes_to_the_provider,
                to_4_every_request_is_valid;
        }
    };
}

/// Makes a test of every clause of the model suite; `$make` names an
/// `async fn() -> ModelSubject`.
#[macro_export]
macro_rules! model_suite {
    ($make:path) => {
        mod model {
            $crate::with_model_clauses!([$crate::tests_of], model, $make);
        }
    };
}
