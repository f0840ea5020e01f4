# Sourced by generators.sh and linters.sh after service.sh: downloads and runs tools, and reports their results.
downloads=${DOWNLOADS:-$folder/downloads}
mkdir -p "$downloads"
PATH=$PATH:/usr/local/go/bin
node=$(command -v node)

online() { timeout 120 "$@"; }
# Only programs run by this function trust the service's certificate authority.
trusting() { NODE_EXTRA_CA_CERTS=$authority SSL_CERT_FILE=$authority "$@"; }
# A tool's exit status: 0 for passed, 77 for skipped with the reason on the last line, any other value for failed.
skip() { echo "$*"; exit 77; }

# Installs npm packages in the current tool's folder.
npm_tools() {
  echo '{}' >package.json
  # A registry behind a proxy may use a certificate that only the system trusts.
  NODE_USE_SYSTEM_CA=1 online npm install --no-audit --no-fund --fetch-retries=1 "$@" || skip 'there is no package registry'
}

virtual_environment() {
  python3 -m venv venv && online venv/bin/pip install -q --timeout 15 --retries 1 "$@" ||
    skip 'there is no Python with venv, or no package index'
}

has_go() { command -v go >/dev/null || skip 'there is no Go'; }

# Runs a command that downloads what several tools need, while no other such command runs.
shared() { (flock 9; "$@") 9>"$downloads/lock"; }

# Runs tools by calling run_<name> in a separate folder for each, as many at a time as there are cores. Each argument consists
# of a tool's name and its version; the arguments after `--` select the tools to run (default: all). Prints a line for each
# tool, and the log of each failed tool.
run_tools() {
  local offered=() failed=0 tool
  local -A running=()
  while [ "$1" != -- ]; do offered+=("$1"); shift; done
  shift
  for tool in "${offered[@]}"; do
    [ $# -gt 0 ] && [[ " $* " != *" ${tool%% *} "* ]] && continue
    if [ "${#running[@]}" -ge "$(nproc)" ]; then wait_for_one; fi
    run_tool "$tool" &
    running[$!]=$tool
  done
  while [ "${#running[@]}" -gt 0 ]; do wait_for_one; done
  return "$failed"
}

# Waits until one of the running tools ends.
wait_for_one() {
  local ended
  wait -n -p ended "${!running[@]}" || failed=1
  unset "running[$ended]"
}

run_tool() { # argument: the name and the version; fails if the tool fails
  local name version started=$SECONDS status
  read -r name version <<<"$1"
  mkdir "$folder/$name"
  # Uses a subshell, because `set -e` has no effect inside a condition.
  set +e
  (set -e; cd "$folder/$name"; "run_${name//-/_}") >"$folder/$name.log" 2>&1
  status=$?
  set -e
  case $status in
    0) echo "PASS $name $version ($((SECONDS - started)) s)" ;;
    77) echo "SKIPPED $name $version: $(tail -n 1 "$folder/$name.log")" ;;
    *) echo "FAIL $name $version"; tail -n 400 "$folder/$name.log"; return 1 ;;
  esac
}
