# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
# One place under two names: spellings of a file that is not there yet, links, a second name, a folder by a link.
mkdir folder; ln -s folder way
refused specstep run tiny --json x.json --csv ./x.json
refused specstep run tiny --json x.json --csv "$PWD/x.json"
refused specstep run tiny --json folder/x.json --csv way/../folder/./x.json
refused specstep run tiny --json folder/x.json --csv way/x.json
refused specstep comm 8x-h200 --json x.json --save-table ./x.json --executor cuda
echo old > a.json; ln a.json b.json
refused specstep run tiny --json a.json --csv b.json
# What is read is not written: the config, a base, a part, a table, a matrix.
cp "$SPECSTEP_CONFIGS/stacks/tiny.yaml" stack.yaml
cp "$SPECSTEP_CONFIGS/runs/tiny.yaml" base.yaml
printf 'base: base.yaml\nstack: ./stack.yaml\n' > run.yaml
printf 'name: s\nruns: [{name: a, run: ./run.yaml}]\n' > study.yaml
printf 'bytes,nccl_us\n1024,10\n2048,11\n' > table.csv
for command in run plan solve check comm fabric; do
  for file in run.yaml ./base.yaml stack.yaml; do refused specstep $command run.yaml --quiet --json $file; done
done
refused specstep run study.yaml --csv run.yaml
refused specstep run tiny --set stack=./stack.yaml --json stack.yaml
refused specstep comm --table table.csv --csv table.csv
refused specstep fabric h200_nvswitch8 --measured table.csv --json table.csv
refused specstep import nccl-tests table.csv --json table.csv
cat a.json; ls folder
cmp stack.yaml "$SPECSTEP_CONFIGS/stacks/tiny.yaml"; cmp base.yaml "$SPECSTEP_CONFIGS/runs/tiny.yaml"
head -1 run.yaml study.yaml table.csv
