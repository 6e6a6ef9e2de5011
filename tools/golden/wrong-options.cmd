# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep run tiny --executor host --seed 9223372036854775807
refused specstep run tiny --executor host --seed nan
refused specstep run tiny --executor host --seed 3 --set measure.host.seed=5
refused specstep run tiny --executor host --set measure.executor=cost
refused specstep run tiny --seed 3
refused specstep run seed-study --seed 3
refused specstep run seed-study --executor host
refused specstep plan tiny --seed 3
refused specstep list --set workload.batch=2
refused specstep list --metrics --backends
refused specstep comm seed_8x_rtxpro6000 --uncertainty nan
refused specstep comm seed_8x_rtxpro6000 --uncertainty 0.1
refused specstep comm seed_8x_rtxpro6000 --hidden 7168
refused specstep import hf-config config.json --set name=x
refused specstep import hf-config config.json --like seed_8x_rtxpro6000
refused specstep import nvidia-smi-topo topo.txt --name x
