#!/bin/bash
# tools/setup_build.sh in a checkout of nothing, where set-up and build only say when they begin and end: two at once take turns, and
# one that is killed blocks nobody longer than what it started.
set -euo pipefail
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir tools bin
cp "$source_folder/tools/setup_build.sh" tools/
cat >bin/step <<'EOF'
#!/bin/bash
echo "begin $(basename "$0")" >>log
sleep "${STEP_SECONDS:-0.3}"
if [[ $(basename "$0") == cmake ]]; then touch build/build.ninja; fi
echo "end $(basename "$0")" >>log
EOF
chmod +x bin/step
for name in bin/cmake bin/ninja tools/setup.sh; do cp bin/step $name; done
export PATH="$folder/bin:$PATH"
cat >start <<'EOF'
#!/bin/bash
set -euo pipefail
source tools/setup_build.sh
build_foretile "" all
EOF
chmod +x start

./start 2>first & ./start 2>second & wait
printf '%s\n' {begin,end}\ setup.sh {begin,end}\ cmake {begin,end}\ ninja {begin,end}\ ninja >wanted
diff wanted log
[[ $(cat first second | grep -c 'waiting for another build') == 1 ]]

rm log
STEP_SECONDS=2 ./start 2>third & script=$!
until [[ -e log ]]; do sleep 0.05; done
kill -KILL $script  # the script alone, not what it started
./start 2>fourth
grep -q 'waiting for another build' fourth
printf '%s\n' {begin,end}\ ninja {begin,end}\ ninja >wanted
diff wanted log
