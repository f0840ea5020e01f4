#!/usr/bin/env bash
# Sends a running service requests that its OpenAPI document allows, and many that it does not allow (docs/testing.md).
# Usage: scripts/schemathesis.sh [options of `schemathesis run`]; SCHEMATHESIS is the program's path if it is not on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/service.sh

"${SCHEMATHESIS:-schemathesis}" run "$base/openapi.json" --tls-verify "$authority" \
  --header "Authorization: Bearer $token" --generation-database none --checks all --workers 1 "$@"
