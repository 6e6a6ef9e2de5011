# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
: > empty.yaml
printf 'a: \000\001\002' > binary.yaml
mkdir folder.yaml
truncate -s 100000000 big.yaml
printf 'stack: ./nowhere.yaml\nmachine: 8x-h200\nparallel: {tensor: 8}\n' > include.yaml
printf 'base: b.yaml\n' > a.yaml
printf 'base: a.yaml\n' > b.yaml
printf 'name: x\n\tlayers: 1\n' > tab.yaml
printf 'colour: red\n' > other.yaml
for file in empty binary folder big include a tab other missing; do refused specstep check $file.yaml; done
refused specstep run no-such-run
