# Sourced by other scripts: starts a service with an empty database and stops it when the script ends.
# Sets `folder` (temporary, removed at the end), `base`, `authority` (a PEM file), and `token` (with every scope).
folder=$(mktemp -d)
port=${PORT:-$((20000 + RANDOM % 20000))}
base="https://localhost:$port"
authority="$folder/data/certificates/authority.crt"
secret=$(node -p 'crypto.randomUUID()')

# The tools send more requests than the limits allow.
env PLINTH_RATE_LIMIT=off PLINTH_RATE_LIMIT_ANONYMOUS=off PLINTH_RATE_LIMIT_TOKEN=off PLINTH_PROFILE=development PLINTH_DATA_DIR="$folder/data" PLINTH_PORT="$port" PLINTH_HTTP_PORT=0 \
  PLINTH_BOOTSTRAP_CLIENT_ID=scripts PLINTH_BOOTSTRAP_CLIENT_SECRET="$secret" PLINTH_ACCESS_TOKEN_TTL=86400 \
  PLINTH_LOG_LEVEL=warn node bin/plinth.js serve >"$folder/log" 2>&1 &
service=$!
stop_service() {
  kill "$service" 2>/dev/null || true
  wait "$service" 2>/dev/null || true
  # Go makes its module cache read-only.
  chmod -R u+w "$folder" && rm -rf "$folder"
}
trap stop_service EXIT

for _ in $(seq 300); do
  if [ -f "$authority" ] && curl -sf --cacert "$authority" "$base/readyz" >/dev/null; then break; fi
  kill -0 "$service" || { cat "$folder/log"; exit 1; }
  sleep 0.1
done

answer=$(curl -sSf --cacert "$authority" -u "scripts:$secret" -d grant_type=client_credentials "$base/oauth/token")
token=$(node -p 'JSON.parse(process.argv[1]).access_token' "$answer")
