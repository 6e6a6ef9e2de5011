# exit 0
specstep list --backends | head -24
specstep list --backends | awk 'length > 100 { print "too wide: " $0 }'
specstep list --backends --json - | head -24
specstep list --ranks 4 && exit 1 || echo "exit $?"
