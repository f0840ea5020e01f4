#!/usr/bin/env bash
# Checks a service's OpenAPI documents with Spectral, Redocly, kin-openapi, a Postman collection converted from the document,
# and Schemathesis (docs/testing.md).
# Usage: scripts/linters.sh [tool names]; DOWNLOADS is a folder that caches downloads, SCHEMATHESIS is an installed program to
# use if no package index is available, and SCHEMATHESIS_OPTIONS are its options.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/service.sh
. scripts/tools.sh

spectral=6.16.3
converter=6.3.3
newman=6.2.2
kin_openapi=v0.152.0
schemathesis=4.32.5
redocly=$(node -p 'require("@redocly/cli/package.json").version')
repository=$PWD

# The linters reject `localhost` as a server address, so it is replaced in the documents.
for version in '' /v2; do
  file="$folder/openapi${version/\//.}.json"
  curl -sSf --cacert "$authority" "$base$version/openapi.json" | sed "s#$base#https://api.plinth.test#g" >"$file"
done
documents=("$folder/openapi.json" "$folder/openapi.v2.json")

run_spectral() {
  npm_tools "@stoplight/spectral-cli@$spectral"
  echo 'extends: ["spectral:oas"]' >ruleset.yaml
  node_modules/.bin/spectral lint --fail-severity=warn -r ruleset.yaml "${documents[@]}"
}

run_redocly() {
  REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true "$repository/node_modules/.bin/redocly" lint \
    --config "$repository/redocly.yaml" "${documents[@]}"
}

run_kin_openapi() {
  has_go
  [ -x "$downloads/validate" ] ||
    GOBIN=$downloads online go install "github.com/getkin/kin-openapi/cmd/validate@$kin_openapi" ||
    skip 'there is no module proxy'
  for document in "${documents[@]}"; do "$downloads/validate" "$document"; done
}

run_newman() {
  npm_tools "openapi-to-postmanv2@$converter" "newman@$newman"
  curl -sSf --cacert "$authority" "$base/openapi.json" -o served.json
  node_modules/.bin/openapi2postmanv2 -s served.json -o collection.json -O parametersResolution=Example,folderStrategy=Tags
  node_modules/.bin/newman run collection.json --ssl-extra-ca-certs "$authority" --env-var "bearerToken=$token" \
    --env-var basicAuthUsername=scripts --env-var "basicAuthPassword=$secret" --color off \
    --reporters cli,json --reporter-json-export report.json
  node -e '
    const { executions, failures } = JSON.parse(require("node:fs").readFileSync("report.json", "utf8")).run
    const malformed = executions.filter(({ response }) => [400, 405, 406, 415, 422].includes(response?.code) || !(response?.code < 500))
    for (const { item, response } of malformed) console.error(item.request.method, item.name, response?.code)
    process.exitCode = malformed.length + failures.length > 0 || executions.length < 50 ? 1 : 0'
}

run_schemathesis() {
  local program=${SCHEMATHESIS:-}
  if [ -z "$program" ]; then
    virtual_environment "schemathesis==$schemathesis"
    program=$PWD/venv/bin/schemathesis
  fi
  cd "$repository"
  # shellcheck disable=SC2086 # options are words
  SCHEMATHESIS=$program scripts/schemathesis.sh --no-color ${SCHEMATHESIS_OPTIONS:--n 50 --seed 42}
}

# The slowest first, so that no tool is left to run alone at the end.
run_tools "schemathesis $schemathesis" "spectral $spectral" "newman $newman with openapi-to-postmanv2 $converter" \
  "kin-openapi $kin_openapi" "redocly $redocly" -- "$@"
