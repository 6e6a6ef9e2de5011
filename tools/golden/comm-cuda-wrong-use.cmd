# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
export CUDA_VISIBLE_DEVICES=
refused specstep comm switch_4p4_microchip --devices 0,0
refused specstep comm switch_4p4_microchip --save-table out.yaml
refused specstep comm --executor cuda --eager
refused specstep comm --executor cuda --collective all_gather
refused specstep comm --executor cuda --backends push2
refused specstep comm --executor cuda --bytes 1001
refused specstep comm --executor cuda --dtype fp8
refused specstep comm --executor cuda --own wire=smoke
refused specstep comm --executor cuda --own wires=ll
refused specstep comm --executor cuda --fault rank=3
refused specstep comm --executor cuda --conditions hot
refused specstep comm --executor cuda --set gpu=h200
refused specstep comm --executor host --collective all_gather
ls
