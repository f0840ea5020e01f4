#!/usr/bin/env bash
# Asks a running service everything its OpenAPI document allows, and much that it does not (docs/testing.md).
# Usage: scripts/schemathesis.sh [options of `schemathesis run`]; SCHEMATHESIS names the program where PATH has none.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/service.sh

"${SCHEMATHESIS:-schemathesis}" run "$base/openapi.json" --tls-verify "$authority" \
  --header "Authorization: Bearer $token" --generation-database none --checks all --workers 1 "$@"
