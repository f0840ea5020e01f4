#!/usr/bin/env bash
# Generates clients from a service's OpenAPI document, compiles them, and runs a program for each client, which lists, creates
# and updates resources (with If-Match), and requests and downloads a report (docs/testing.md).
# Usage: scripts/generators.sh [generator names]; DOWNLOADS is a folder that caches downloads.
set -euo pipefail
cd "$(dirname "$0")/.."
clients=$PWD/scripts/clients
console=$PWD/console/src/api/schema.d.ts document=$PWD/openapi.json
. scripts/service.sh
. scripts/tools.sh

export BASE=$base TOKEN=$token AUTHORITY=$authority
curl -sSf --cacert "$authority" "$base/openapi.json" -o "$folder/openapi.json"
curl -sSf --cacert "$authority" "$base/openapi.json?webhooks=false" -o "$folder/without-webhooks.json"

java_generator=7.24.0
oapi_codegen_version=v2.8.0
python_client=0.29.0
dependency_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

# npm packages that several tools need.
npm_packages() {
  [ -d "$downloads/npm/node_modules/esbuild" ] && return
  mkdir -p "$downloads/npm"
  (cd "$downloads/npm" && npm_tools openapi-typescript@7.13.0 openapi-fetch@0.17.0 @hey-api/openapi-ts@0.99.0 \
    typescript@5.9.3 @types/node@24.19.2 esbuild@0.25.12)
}

typescript_program() { # argument: the program, whose imports are already in the folder
  cp "$clients/$1" program.ts
  ln -sfn "$downloads/npm/node_modules" node_modules
  node_modules/.bin/tsc --noEmit --strict --target es2023 --module esnext --moduleResolution bundler \
    --allowImportingTsExtensions --lib es2023,dom,dom.iterable --types node program.ts
  node_modules/.bin/esbuild program.ts --bundle --platform=node --format=esm --log-level=warning --outfile=program.mjs
  trusting "$node" program.mjs
}

run_openapi_typescript() {
  shared npm_packages
  "$downloads/npm/node_modules/.bin/openapi-typescript" "$document" -o console.d.ts
  cmp console.d.ts "$console" || { echo 'run: npm run schema -w console' >&2; return 1; }
  "$downloads/npm/node_modules/.bin/openapi-typescript" "$folder/openapi.json" -o schema.d.ts
  typescript_program openapi-typescript.ts
}

run_hey_api() {
  shared npm_packages
  "$downloads/npm/node_modules/.bin/openapi-ts" -i "$folder/openapi.json" -o generated -c @hey-api/client-fetch
  typescript_program hey-api.ts
}

run_openapi_python_client() {
  virtual_environment "openapi-python-client==$python_client"
  PATH=$PWD/venv/bin:$PATH venv/bin/openapi-python-client generate --path "$folder/openapi.json" --output-path generated
  venv/bin/python -m compileall -q generated
  PYTHONPATH=generated venv/bin/python "$clients/openapi_python_client.py"
}

go_program() { # argument: the program; the client is in an adjacent folder
  cp "$clients/$1" main.go
  printf 'module clients\n\ngo 1.24\n' >go.mod
  GOFLAGS=-mod=mod online go mod tidy || skip 'there is no module proxy'
  GOFLAGS=-mod=mod go build -o program .
  trusting ./program
}

run_oapi_codegen() {
  has_go
  [ -x "$downloads/oapi-codegen" ] ||
    GOBIN=$downloads online go install "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$oapi_codegen_version" ||
    skip 'there is no module proxy'
  mkdir api && "$downloads/oapi-codegen" -generate types,client -package api -o api/client.gen.go "$folder/openapi.json"
  go_program oapi-codegen.go
}

generator_jar="$downloads/openapi-generator-cli-$java_generator.jar"
download_generator() {
  [ -f "$generator_jar" ] || online mvn -q -B "$dependency_plugin:copy" -DoutputDirectory="$downloads" \
    -Dartifact="org.openapitools:openapi-generator-cli:$java_generator" || skip 'the Maven repository does not answer'
}

openapi_generator() { # arguments: generator, document, folder, options
  command -v java >/dev/null && command -v mvn >/dev/null || skip 'there is no Java, or no Maven'
  shared download_generator
  java -jar "$generator_jar" generate -i "$2" -g "$1" -o "$3" "${@:4}"
}

run_openapi_generator_typescript_fetch() {
  shared npm_packages
  openapi_generator typescript-fetch "$folder/openapi.json" generated
  typescript_program typescript-fetch.ts
}

run_openapi_generator_python() {
  openapi_generator python "$folder/without-webhooks.json" generated
  virtual_environment ./generated
  venv/bin/python -m compileall -q generated/openapi_client
  venv/bin/python "$clients/openapi_generator.py"
}

run_openapi_generator_go() {
  has_go
  openapi_generator go "$folder/openapi.json" openapi
  rm -r openapi/go.mod openapi/go.sum openapi/test
  go_program openapi-generator.go
}

run_openapi_generator_java() {
  openapi_generator java "$folder/openapi.json" generated
  cp "$clients/Program.java" generated/src/main/java/
  (cd generated && online mvn -q -B -DskipTests -Dmaven.javadoc.skip=true package)
  java -cp 'generated/target/classes:generated/target/lib/*' Program
}

run_tools "openapi-typescript 7.13.0 with openapi-fetch 0.17.0" "hey-api 0.99.0" \
  "openapi-python-client $python_client" "oapi-codegen $oapi_codegen_version" \
  "openapi-generator-typescript-fetch $java_generator" "openapi-generator-python $java_generator" \
  "openapi-generator-go $java_generator" "openapi-generator-java $java_generator" -- "$@"
