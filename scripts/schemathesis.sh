#!/usr/bin/env bash
# Sends requests to a running service: valid ones, and many that its OpenAPI document does not allow (docs/testing.md).
# Usage: scripts/schemathesis.sh [options of `schemathesis run`]; SCHEMATHESIS is the program's path if it is not on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/service.sh

"${SCHEMATHESIS:-schemathesis}" run "$base/openapi.json" --tls-verify "$authority" \
  --header "Authorization: Bearer $token" --generation-database none --checks all --workers 1 "$@"
