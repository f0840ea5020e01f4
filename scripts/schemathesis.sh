#!/usr/bin/env bash
# Asks a running service everything its OpenAPI document allows, and much that it does not (docs/testing.md).
# Usage: scripts/schemathesis.sh [options of `schemathesis run`]; SCHEMATHESIS names the program where PATH has none.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
port=${PORT:-$((20000 + RANDOM % 20000))}
base="https://localhost:$port"
secret=$(node -p 'crypto.randomUUID()')

env PLINTH_PROFILE=development PLINTH_DATA_DIR="$folder/data" PLINTH_PORT="$port" PLINTH_HTTP_PORT=0 \
  PLINTH_BOOTSTRAP_CLIENT_ID=schemathesis PLINTH_BOOTSTRAP_CLIENT_SECRET="$secret" PLINTH_ACCESS_TOKEN_TTL=86400 \
  PLINTH_LOG_LEVEL=warn node bin/plinth.js serve >"$folder/log" 2>&1 &
service=$!
stop() {
  kill "$service" 2>/dev/null || true
  wait "$service" 2>/dev/null || true
  cat "$folder/log"
  rm -rf "$folder"
}
trap stop EXIT

authority="$folder/data/certificates/authority.crt"
for _ in $(seq 200); do
  if [ -f "$authority" ] && curl -sf --cacert "$authority" "$base/readyz" >/dev/null; then break; fi
  kill -0 "$service"
  sleep 0.1
done

answer=$(curl -sSf --cacert "$authority" -u "schemathesis:$secret" -d grant_type=client_credentials "$base/oauth/token")
token=$(node -p 'JSON.parse(process.argv[1]).access_token' "$answer")

"${SCHEMATHESIS:-schemathesis}" run "$base/openapi.json" --tls-verify "$authority" \
  --header "Authorization: Bearer $token" --generation-database none --checks all --workers 1 "$@"
