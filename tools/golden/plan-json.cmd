# exit 0
specstep plan tiny --pass draft --json - | grep -A 12 '"totals"'
