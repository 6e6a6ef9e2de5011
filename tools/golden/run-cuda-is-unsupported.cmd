# exit 77
specstep run tiny --set measure.executor=cuda
