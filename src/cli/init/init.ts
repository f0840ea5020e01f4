import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { print } from '../print.ts'
import { filesOf } from './templates.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

interface InitOptions {
  /** Whether to install the dependencies. */
  install: boolean
}

/**
 * Creates a new service in a folder, installs its dependencies with npm if `install` is true, and prints the next
 * commands. Throws an error if the folder contains anything but `.git`, or if npm fails.
 */
export function init(path: string, { install }: InitOptions): void {
  const folder = resolve(path)
  refuseContent(folder, path)
  // The service may run as another user, for example in a container, so all files except .env are readable by other
  // users.
  process.umask(0o022)
  mkdirSync(folder, { recursive: true })
  const { devDependencies } = manifest()
  const files = filesOf({
    name: packageName(folder),
    plinth: addDependency(folder),
    typescript: devDependencies.typescript,
    nodeTypes: devDependencies['@types/node'],
    secret: randomBytes(24).toString('base64url'),
  })
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(folder, name), content, { mode: name === '.env' ? 0o600 : 0o644 })
  }
  print(`Created ${Object.keys(files).join(', ')} in ${folder}\n`)
  const isInstalled = install && runInstall(folder)
  print(nextSteps(path, folder, isInstalled))
  if (install && !isInstalled) throw new Error('npm install failed; its error is above')
}

/** Throws an error if the path is a file, or a folder that contains anything but `.git`. */
function refuseContent(folder: string, path: string): void {
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found === undefined) return
  if (!found.isDirectory()) throw new Error(`${path} is a file; plinth init creates a folder, so use another name`)
  const [first, ...others] = readdirSync(folder).filter((name) => name !== '.git')
  if (first === undefined) return
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  throw new Error(`${path} is not empty: it contains ${first}${more}; use a new or an empty folder`)
}

interface Manifest {
  version: string
  devDependencies: { typescript: string; '@types/node': string }
}

const manifest = (): Manifest => JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/**
 * Returns a valid package name based on the folder's name. It is never `plinth`, because npm does not install a package
 * in one of the same name.
 */
function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+|[._-]+$/g, '')
    .slice(0, 200)
  return name === '' || name === 'plinth' ? 'my-service' : name
}

/**
 * Returns the version range or path of this package for package.json. If the package was installed from a tarball,
 * copies the tarball to the folder, so that the dependencies can also be installed elsewhere, for example in a
 * container.
 */
function addDependency(folder: string): string {
  const { resolved } = installation()
  if (resolved?.startsWith('http')) return `^${manifest().version}`
  const tarball = resolved?.startsWith('file:') ? resolve(dirname(dirname(root)), resolved.slice('file:'.length)) : ''
  if (!/\.tgz$|\.tar\.gz$/.test(tarball) || !existsSync(tarball)) return `file:${relative(folder, root)}`
  const name = `plinth-${manifest().version}.tgz`
  copyFileSync(tarball, join(folder, name))
  return `file:${name}`
}

/** Returns npm's metadata about the installation of this package; empty if there is none. */
function installation(): { resolved?: string } {
  const lockfile = join(dirname(root), '.package-lock.json')
  if (basename(dirname(root)) !== 'node_modules' || !existsSync(lockfile)) return {}
  const { packages = {} } = JSON.parse(readFileSync(lockfile, 'utf8')) as {
    packages?: Record<string, { resolved?: string }>
  }
  return packages[`node_modules/${basename(root)}`] ?? {}
}

/** Installs the dependencies; returns false if that fails. */
function runInstall(folder: string): boolean {
  const options = { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' } as const
  return spawnSync('npm', ['install', '--no-audit', '--no-fund'], options).status === 0
}

/** Quotes a path for a shell if it contains characters that may have a special meaning there. */
const quoted = (path: string) => (/^[\w./@-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)

function nextSteps(path: string, folder: string, isInstalled: boolean): string {
  const steps = [
    ...(folder === process.cwd() ? [] : [`cd ${quoted(path)}`]),
    ...(isInstalled ? [] : ['npm install']),
    'npm test',
    'npx plinth serve --watch',
  ]
  const token =
    'curl -s -u $PLINTH_BOOTSTRAP_CLIENT_ID:$PLINTH_BOOTSTRAP_CLIENT_SECRET -d grant_type=client_credentials'
  const request = [
    ...(folder === process.cwd() ? [] : [`cd ${quoted(path)}`]),
    '. ./.env',
    `TOKEN=$(${token} http://localhost:8080/oauth/token | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')`,
    'curl -H "Authorization: Bearer $TOKEN" -H \'Content-Type: application/json\' -d \'{"title":"Milk"}\' http://localhost:8080/v2/notes',
  ]
  const block = (commands: readonly string[]) => commands.map((command) => `  ${command}\n`).join('')
  return `\nNext:\n\n${block(steps)}\nThen, in a second terminal:\n\n${block(request)}`
}
