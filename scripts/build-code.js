// Bundles src/ and libraries into a few files, which Node.js loads in half the time.
//
//   node scripts/build-code.js            writes build/, from which a checkout starts, unless it is current
//   node scripts/build-code.js --package  writes dist/ with types, for npm pack and the image
//
// Without the build tool, which is a development dependency, a checkout runs its sources.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'src')
/** Libraries with hundreds of modules each, without dependencies and without code that faces the network. */
const inPackage = ['typebox', 'kysely']
/**
 * The packages that every start loads. They and their dependencies are in `build/`, which is rebuilt when an installed
 * package changes, but not in `dist/`, so that npm can update them after an installation.
 */
const inCheckout = [
  ...['@fastify/type-provider-typebox', '@opentelemetry/api', 'close-with-grace', 'commander', 'cron-parser'],
  ...['fast-json-stringify', 'fastify', 'fastify-plugin', 'ipaddr.js', 'jose', 'multipasta', 'oidc-provider'],
  ...['pino', 'prom-client', 'undici'],
]
/** Matches the URL of a worker thread's program. */
const thread = /new URL\(`\.\/([\w-]+)\$\{extname\(import\.meta\.url\)\}`/g

const isPackage = process.argv.includes('--package')
const folder = join(root, isPackage ? 'dist' : 'build')
const bundled = isPackage ? inPackage : [...inPackage, ...inCheckout]

/** Returns whether an import stays an import: Node's modules, and packages that are not in the bundle. */
function isExternal(id, importer = '') {
  if (/^[./]/.test(id)) return false
  if (isBuiltin(id)) return true
  return !importer.includes('node_modules') && !bundled.some((name) => id === name || id.startsWith(`${name}/`))
}

/** Makes each module resolve `import.meta.url` to its original path, whichever file of the bundle contains it. */
const originalPaths = {
  name: 'original paths',
  transform(text, id) {
    if (!id.startsWith(source) || !text.includes('import.meta.url')) return null
    const path = relative(source, id).replace(/\.ts$/, '.js')
    return text.replaceAll('import.meta.url', `new URL('__ROOT__/${path}', import.meta.url).href`)
  },
  renderChunk(text, { fileName }) {
    return text.replaceAll('__ROOT__', relative(dirname(fileName), '') || '.')
  },
}

async function build() {
  const { stateOfSources } = await import('../bin/code.js')
  const stateFile = join(folder, 'sources.txt')
  const state = stateOfSources()
  if (!isPackage && existsSync(stateFile) && readFileSync(stateFile, 'utf8') === state) return
  rmSync(folder, { recursive: true, force: true })
  await bundle()
  if (isPackage) addTypesAndLicences()
  else writeFileSync(stateFile, state)
}

/** Bundles the program, the public APIs, and the program of each worker thread. */
async function bundle() {
  const rolldown = await import('rolldown')
  await rolldown.build({
    input: Object.fromEntries(
      ['main', 'plinth', 'testing/testing', ...threads()].map((name) => [name, join(source, `${name}.ts`)]),
    ),
    external: isExternal,
    platform: 'node',
    plugins: [originalPaths],
    output: { dir: folder, entryFileNames: '[name].js', chunkFileNames: 'chunks/[name]-[hash].js', keepNames: true },
    logLevel: 'warn',
    // A dependency of Koa uses direct eval.
    checks: { eval: false },
  })
}

const threads = () =>
  globSync('**/*.ts', { cwd: source }).flatMap((path) =>
    [...readFileSync(join(source, path), 'utf8').matchAll(thread)].map(([, name]) => join(dirname(path), name)),
  )

function addTypesAndLicences() {
  const tsc = join(root, 'node_modules/.bin/tsc')
  // Emits the types without checking them, which `npm run types` does. With several threads, tsc would check parts of
  // the sources twice, which takes twice the CPU time.
  const args = ['--singleThreaded', '--noCheck', '-p', 'tsconfig.build.json']
  const { status } = spawnSync(tsc, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) throw new Error('tsc failed')
  const licences = inPackage.map((name) => {
    const place = join(root, 'node_modules', name)
    const file = readdirSync(place).find((entry) => /^licen[cs]e/i.test(entry))
    if (file === undefined) throw new Error(`${name} has no licence file`)
    return `${name}\n\n${readFileSync(join(place, file), 'utf8')}`
  })
  writeFileSync(join(folder, 'licences.txt'), licences.join('\n\n'))
}

try {
  if (existsSync(join(root, 'node_modules/rolldown')) && Number.parseInt(process.versions.node, 10) >= 24) await build()
  else if (isPackage) throw new Error('The build tool is not installed; run npm ci')
} catch (error) {
  if (isPackage) throw error
  // An incomplete build does not record its sources, so it is never used.
  process.stderr.write(`plinth: no bundle was built, so the service starts from its sources: ${error.message}\n`)
}
