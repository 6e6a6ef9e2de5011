# exit 2
specstep run kimi-k2.5-8x-h200 --executor host 2>refused || { code=$?; cut -d";" -f1 refused; exit $code; }
