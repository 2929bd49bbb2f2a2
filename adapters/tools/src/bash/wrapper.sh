# Runs the command $1 beside a watcher that ends the whole process group once the worker is gone.
# Standard input is a pipe that only the worker can write to: its end says that the worker died,
# however it died. Signals to the group pass the watcher and this shell by, so that a command
# cannot end its guard by `kill 0`, and so that this shell can still say how the command ended.
trap '' HUP INT QUIT TERM
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 &
exec 3<&-
# Handled and not ignored: what is ignored would be ignored by the command, too.
trap : HUP INT QUIT TERM
# In a shell of its own, so that "Terminated" and the like, which this one says on standard error
# while the redirections of a command hold, does not pass for output.
(
    if command -v bash >/dev/null 2>&1; then
        exec bash -c "$1" 2>&1
    fi
    exec sh -c "$1" 2>&1
)
# Without a command after it a shell may turn into the one above, which the worker then waits for.
exit "$?"
