# exit 0
data=$SPECSTEP_CONFIGS/../comm/table/testdata
cp $data/ar_8gpu_first.csv $data/b12x_m7168.csv $data/h100x8.csv .
specstep comm --table ar_8gpu_first.csv --ranks 8
specstep comm --table b12x_m7168.csv --hidden 7168 --ranks 16
specstep comm --table h100x8.csv --value-bytes 2 --ranks 8 | grep note
