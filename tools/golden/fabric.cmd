# exit 0
specstep fabric switch_4_same_root
cp $SPECSTEP_CONFIGS/../comm/report/testdata/collapse_writes.csv .
specstep fabric 8x-rtx-pro-6000-seed --measured collapse_writes.csv | sed -n '/^Measured/,$p'
printf 'pattern,write_gbps\n0>9,50\n' > wrong.csv
specstep fabric switch_4_same_root --measured wrong.csv || echo "exit $?"
specstep fabric h200_nvlink2 --json - | head -3
