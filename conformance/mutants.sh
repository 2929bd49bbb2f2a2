#!/usr/bin/env bash
# Changes the kernel in one place at a time and asks whether any test notices. Not part of the
# gate: it takes hours. The bar is 95 % caught; what survives is explained below or gets a test.
#
#   conformance/mutants.sh                                  the whole kernel
#   conformance/mutants.sh --file kernel/src/wake/mod.rs    one file; other options of
#                                                           cargo-mutants work too
#
# Needs `cargo install --locked cargo-mutants`. Results lie in target/mutants.out: missed.txt
# has one line for each change that no test noticed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo mutants --version >/dev/null 2>&1; then
    echo 'cargo-mutants is missing: cargo install --locked cargo-mutants' >&2
    exit 1
fi

# Left out, and why: what a debug form, an error or a refusal says is for people; texts that are
# recorded (ids, times, keys) are not left out. Constants have a table that a test states (RC-10).
excludes=(
    --exclude 'kernel/build.rs'
    --exclude 'kernel/src/**/tests.rs'
    --exclude 'kernel/src/limits.rs'
    --exclude-re 'impl fmt::Debug for'
    --exclude-re 'impl fmt::Display for (ContentRef|Blocked)'
    --exclude-re '::expecting'
    # Room that a text is given from the start: with another it grows.
    --exclude-re 'replace \+ with \* in Envelope::seal'
    # Of the marks of a word the lowest counts, and at that byte only one of the three can stand.
    --exclude-re 'replace \| with \^ in special'
    # Bytes give the order faster than UTF-16 units where both agree; where they do not, units are asked.
    --exclude-re 'replace match guard a < 0xee \|\| b < 0xee with false in name_order'
    --exclude-re 'replace \|\| with && in name_order'
)

# The kernel's own tests alone: a law that only the engine's tests notice has no test here.
exec cargo mutants \
    --package plica-kernel \
    --test-package plica-kernel \
    --output target \
    --no-shuffle \
    --minimum-test-timeout 60 \
    "${excludes[@]}" \
    "$@"
