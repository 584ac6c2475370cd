#!/bin/bash
# Everything that recording counters needs on a GPU host without a compiler, in one folder: tools/counters/pack.sh FOLDER [LIST...]
# LIST: shared, global, kernels or gemms; left out: all. There, FOLDER/record.sh OUT records them into OUT/counters_LIST.csv,
# which go to tests/golden/.
set -euo pipefail
[[ $# -ge 1 && $1 != -* ]] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(readlink -f "$1")
shift
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source tools/setup_build.sh
build_foretile --compiler-for-kernels foretile_counters
rm -rf "$folder/kernels"
flags=()
for list in "${@:-}"; do
  # 3: kernels that the library itself refuses are left out, and said so
  build/tools/counters/foretile_counters compile "$folder/kernels" ${list:+"$list"} >/dev/null || [[ $? == 3 ]]
  [[ -z $list ]] || flags+=(--list "$list")
done
cp build/tools/counters/foretile_counters tools/counters/record.py "$folder"
cat >"$folder/record.sh" <<END
#!/bin/bash
here=\$(dirname "\$(readlink -f "\$0")")
exec python3 "\$here/record.py" "\$here/foretile_counters" "\${1:?usage: record.sh OUT}" --kernels "\$here/kernels" ${flags[*]}
END
chmod +x "$folder/record.sh"
