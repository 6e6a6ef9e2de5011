# exit 0
specstep run seed-study | sed -n '/^Kimi-K2.5 on 8x/,$p'
