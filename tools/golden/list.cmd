# exit 0
specstep list | sed -n '/^executors/,/^configs/p' | head -4 | sed 's/ (this build has no cuda module)//'
specstep list --metrics | head -3
specstep list --backends | tail -2
specstep list --schema run | head -4
specstep list --models | head -3
specstep list | sed -n '/^  machines/,$p' | head -4
